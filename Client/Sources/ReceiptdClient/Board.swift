import Foundation

/// Features of the app's own type, which only ``Receiptd`` knows.
typealias AnyFeatures = any Codable & Sendable

/// An ``Entitlement`` without the app's feature type: the parts of the client that do not name the type are compiled once, and not
/// for each type.
final class Access: Sendable {
  let features: AnyFeatures
  let tier: String?
  let status: EntitlementStatus
  let isAccessGranted: Bool
  let validUntil: Date?
  let offlineGraceUntil: Date?
  let pairing: Pairing?
  let everHadAccess: Bool
  let source: EntitlementSource
  let verifiedAt: Date?
  let remark: String?

  /// The free features, while nothing is known.
  init(free: AnyFeatures, remark: String? = nil) {
    features = free
    tier = nil
    status = .expired
    isAccessGranted = false
    validUntil = nil
    offlineGraceUntil = nil
    pairing = nil
    everHadAccess = false
    source = .none
    verifiedAt = nil
    self.remark = remark
  }

  /// StoreKit's own verdict.
  init(deviceVerdict features: AnyFeatures, tier: String?, validUntil: Date?) {
    self.features = features
    self.tier = tier
    status = .active
    isAccessGranted = true
    self.validUntil = validUntil
    offlineGraceUntil = nil
    pairing = nil
    everHadAccess = true
    source = .device
    verifiedAt = nil
    remark = nil
  }

  /// What a verified token opens.
  @inline(never) init(_ held: Held, isFresh: Bool, remark: String? = nil) {
    let claims = held.claims
    features = held.features
    tier = claims.tier
    status = EntitlementStatus(rawValue: claims.status)
    isAccessGranted = claims.isAccessGranted
    validUntil = claims.validUntil.map { Date(timeIntervalSince1970: $0) }
    offlineGraceUntil = claims.isAccessGranted ? Date(timeIntervalSince1970: claims.exp) : nil
    pairing = held.pairing
    everHadAccess = held.everHadAccess
    source = isFresh ? .server : .cache
    verifiedAt = Date(timeIntervalSince1970: claims.iat)
    self.remark = remark
  }

  /// What a listener may show of it.
  var shown: [String?] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let features = (try? encoder.encode(self.features)) ?? Data()
    return [
      features.text, tier, status.rawValue, source.rawValue, pairing?.state,
      pairing?.reason, validUntil?.timeIntervalSince1970.description, isAccessGranted ? "open" : nil,
      everHadAccess ? "ever" : nil,
    ]
  }
}

/// What ``Receiptd/current`` reads without waiting for the actor, and the listeners of ``Receiptd/updates``.
final class Board: Sendable {
  struct State: Sendable {
    var held: Held?
    /// Whether the server's last answer arrived in this process.
    var isFresh = false
    var verdict: Access?
    var time = TimeKeeper()
    var listeners: [Listener] = []
    var last: [String?] = []
  }

  /// A reader of ``Receiptd/updates``.
  final class Listener: Sendable {
    let tell: @Sendable (Access) -> Void

    init(_ tell: @escaping @Sendable (Access) -> Void) { self.tell = tell }
  }

  let free: AnyFeatures
  let clock: any TrustedClock
  let state = Protected(State())

  init(free: AnyFeatures, clock: any TrustedClock) {
    self.free = free
    self.clock = clock
  }

  var now: Date { state.with { $0.time.now(clock) } }
  var held: Held? { state.with { $0.held } }

  var current: Access { access(remark: nil) }

  @inline(never) func access(remark: String?) -> Access {
    let (held, isFresh, verdict, now) = state.with { ($0.held, $0.isFresh, $0.verdict, $0.time.now(clock)) }
    if let held, now.timeIntervalSince1970 < held.claims.exp {
      return Access(held, isFresh: isFresh, remark: remark)
    }
    if let verdict, verdict.validUntil ?? .distantFuture > now { return verdict }
    return Access(free: free, remark: remark)
  }

  /// Sets what is known of a customer.
  @inline(never) func show(_ held: Held?, isFresh: Bool = false, verdict: Access? = nil) {
    state.with {
      $0.held = held
      $0.isFresh = isFresh
      $0.verdict = verdict
    }
    publish()
  }

  @inline(never) func add(_ listener: Listener) { state.with { $0.listeners.append(listener) } }

  @inline(never) func remove(_ listener: Listener) {
    state.with { $0.listeners.removeAll { $0 === listener } }
  }

  /// Takes the server's time.
  @inline(never) func hear(_ time: TimeInterval) {
    state.with { $0.time.hear(Date(timeIntervalSince1970: time), clock) }
  }

  /// Tells the listeners if what they may show has changed.
  @inline(never) func publish() {
    let access = current
    let shown = access.shown
    let listeners = state.with { state -> [Listener] in
      if state.last == shown { return [] }
      state.last = shown
      return state.listeners
    }
    for listener in listeners { listener.tell(access) }
  }
}

import Foundation

/// What ``Receiptd/current`` reads without waiting for the actor, and the listeners of ``Receiptd/updates``.
final class Board<Features: Codable & Sendable>: Sendable {
  struct State: Sendable {
    var held: Held<Features>?
    var verdict: DeviceVerdict<Features>?
    var time = TimeKeeper()
  }

  private struct Listeners: Sendable {
    var streams: [UUID: AsyncStream<Entitlement<Features>>.Continuation] = [:]
    var last: Data?
  }

  let free: Features
  let clock: any TrustedClock
  let state = Protected(State())
  private let listeners = Protected(Listeners())

  init(free: Features, clock: any TrustedClock) {
    self.free = free
    self.clock = clock
  }

  var now: Date { state.with { $0.time.now(clock) } }

  var current: Entitlement<Features> {
    state.with { state in
      let now = state.time.now(clock)
      if let entitlement = state.held?.entitlement(at: now) { return entitlement }
      if let verdict = state.verdict, verdict.validUntil.map({ now < $0 }) ?? true {
        return Entitlement(
          features: verdict.features, tier: verdict.tier, status: .active, isAccessGranted: true,
          validUntil: verdict.validUntil, everHadAccess: true, source: .device)
      }
      return Entitlement(features: free)
    }
  }

  /// A stream that begins with the current entitlement. Only the latest waits for a slow reader.
  func stream() -> AsyncStream<Entitlement<Features>> {
    AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let id = UUID()
      listeners.with { $0.streams[id] = continuation }
      continuation.onTermination = { [weak self] _ in self?.remove(id) }
      continuation.yield(current)
    }
  }

  private func remove(_ id: UUID) { listeners.with { $0.streams[id] = nil } }

  /// Tells the listeners if what they may show has changed.
  func publish() {
    let entitlement = current
    let shown = Self.shown(entitlement)
    let streams = listeners.with { listeners -> [AsyncStream<Entitlement<Features>>.Continuation] in
      if listeners.last == shown { return [] }
      listeners.last = shown
      return Array(listeners.streams.values)
    }
    for stream in streams { stream.yield(entitlement) }
  }

  private struct Shown: Encodable {
    var features: Features
    var words: [String?]
    var validUntil: Date?
    var flags: [Bool]
  }

  private static func shown(_ entitlement: Entitlement<Features>) -> Data? {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return try? encoder.encode(
      Shown(
        features: entitlement.features,
        words: [
          entitlement.tier, entitlement.status.rawValue, entitlement.source.rawValue,
          entitlement.pairing?.state,
          entitlement.pairing?.reason,
        ], validUntil: entitlement.validUntil,
        flags: [entitlement.isAccessGranted, entitlement.everHadAccess]))
  }
}

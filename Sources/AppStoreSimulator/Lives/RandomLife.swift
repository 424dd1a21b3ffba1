import AppStore
import Foundation
import Platform

/// A random history of one customer, made from a seed: purchases, renewals, failures, changes, refunds and family
/// sharing over weeks to years.
///
/// Each step passes some time and carries out a random act that the store accepts. Boundaries are preferred: the end of
/// the paid period to the millisecond, the last millisecond of billing grace, the day before a renewal in which the App
/// Store charges ahead, and the millisecond of the previous step. In between, a device posts facts that it holds, old
/// ones too.
///
/// ```swift
/// let life = RandomLife(seed: 7)
/// life.facts                                    // all signed facts, oldest first
/// life.store.truth(of: life.purchases[0], at: life.end)
/// print(life)                                   // the history as text
/// ```
public struct RandomLife: Sendable {
  /// The seed; the same seed and app give the same life.
  public let seed: UInt64
  /// The app.
  public let app: StoreApp
  /// The store at the end of the life. Its state at later instants is the effect of time alone.
  public private(set) var store: SimulatedStore
  /// The events in order.
  public private(set) var events: [LifeEvent] = []
  /// The facts that devices posted: signed for a notification, or signed again later.
  public private(set) var posts: [LifeFact] = []
  /// The original transaction ids of all purchases and shares, in order.
  public private(set) var purchases: [String] = []
  /// The time of the last event.
  public private(set) var end: Date

  let subscriptionIDs: [String]
  let oneTimeIDs: [String]
  var random: SplitMix64
  /// The app's own customer ids; two, because a device can change hands.
  var customerTokens: [UUID] = []

  /// Makes a life.
  ///
  /// - Parameters:
  ///   - seed: determines the whole life.
  ///   - app: the products on sale; see ``StoreApp/everything``.
  ///   - steps: the largest number of events.
  public init(
    seed: UInt64, app: StoreApp = .everything, environment: Environment = .production,
    from start: Date = Date(timeIntervalSince1970: 1_767_225_600), steps: Int = 40
  ) {
    self.seed = seed
    self.app = app
    let products = app.products.values.sorted { $0.id < $1.id }
    subscriptionIDs = products.filter { $0.period != nil }.map(\.id)
    oneTimeIDs = products.filter { $0.period == nil }.map(\.id)
    random = SplitMix64(state: seed)
    store = SimulatedStore(environment: environment, apps: [app], seed: random.next())
    end = (start + Double.random(in: 0..<1, using: &random) * 86_400).wholeMilliseconds
    for _ in 0..<2 { customerTokens.append(UUID(randomFrom: &random)) }
    let count = Int.random(in: min(3, steps)...steps, using: &random)
    while events.count < count {
      if !purchases.isEmpty { pass() }
      guard takeStep() else { break }
      while chance(25) { post() }
    }
  }

  /// All signed facts: those of notifications, then those that devices posted.
  public var facts: [LifeFact] { notificationFacts + posts }

  /// The facts of all notifications, oldest first, as in Get Notification History.
  public var notificationFacts: [LifeFact] { store.notifications.flatMap(\.facts) }

  /// The current facts of each purchase, signed at `instant`, which is not before the end: the responses of Get All
  /// Subscription Statuses, and of Get Transaction Info for one-time purchases.
  public func statuses(at instant: Date) -> [LifeFact] {
    var store = store
    return purchases.flatMap { store.lastWord(on: $0, at: instant) }
  }

  // MARK: Steps

  /// Carries out a random act that the store accepts.
  ///
  /// - Returns: false if the store accepts none, as for an app without products.
  private mutating func takeStep() -> Bool {
    for _ in 0..<64 {
      let act = purchases.isEmpty ? Act.subscribe : Act.any(using: &random)
      let before = store.notifications.count
      guard let what = carryOut(act) else { continue }
      let sent = Array(store.notifications[before...])
      for purchase in sent.compactMap({ $0.transaction?.originalTransactionId })
      where !purchases.contains(purchase) {
        purchases.append(purchase)
      }
      let truths = purchases.compactMap { store.truth(of: $0, at: end) }
      events.append(LifeEvent(at: end, what: what, notifications: sent, truths: truths))
      return true
    }
    return false
  }

  /// Records a post of a device: a transaction as signed for a notification or signed again now, sometimes with its
  /// renewal info.
  private mutating func post() {
    let sent = store.notifications.randomElement(using: &random)
    if chance(50), let old = sent?.facts.randomElement(using: &random) {
      posts.append(old)
    } else if let id = purchases.randomElement(using: &random),
      let transaction = store.transactionIDs(of: id).randomElement(using: &random),
      let signed = store.signable(transaction, of: app.bundleID, at: end)
    {
      posts.append(.transaction(signed))
      if chance(30) { posts += store.lastWord(on: id, at: end) }
    }
  }

  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  mutating func advance(to instant: Date) { end = max(end, instant.wholeMilliseconds) }

  /// Calls the store at the current time; nil if it refuses.
  mutating func attempt<Value>(
    _ body: (inout SimulatedStore, Date) throws(StoreRefusal) -> Value
  ) -> Value? {
    do { return try body(&store, end) } catch { return nil }
  }
}

extension RandomLife: CustomStringConvertible {
  /// The history with a line for each event and notification.
  public var description: String {
    var lines = ["life \(seed) of \(app.bundleID)"]
    for event in events {
      lines.append("\(event.at.formatted(.withMilliseconds)) \(event.what)")
      for notification in event.notifications { lines.append("    \(notification.line)") }
    }
    return lines.joined(separator: "\n")
  }
}

extension StoreNotification {
  fileprivate var line: String {
    var words = [type.rawValue]
    if let subtype { words.append(subtype.rawValue) }
    if let status { words.append("status \(status.rawValue)") }
    if let transaction {
      words.append("\(transaction.originalTransactionId)/\(transaction.transactionId)")
      words.append(transaction.productId)
      words.append("from \(transaction.purchaseDate.formatted(.withMilliseconds))")
      if let end = transaction.expiresDate { words.append("to \(end.formatted(.withMilliseconds))") }
      if let date = transaction.revocationDate {
        words.append("revoked \(date.formatted(.withMilliseconds))")
      }
    }
    if let renewalInfo {
      words.append(
        "renews \(renewalInfo.autoRenewStatus == .on ? renewalInfo.autoRenewProductId ?? "" : "no")")
      if renewalInfo.isInBillingRetryPeriod == true { words.append("in retry") }
      if let date = renewalInfo.gracePeriodExpiresDate {
        words.append("grace to \(date.formatted(.withMilliseconds))")
      }
    }
    words.append("signed \(signedDate.formatted(.withMilliseconds))")
    return words.joined(separator: " ")
  }
}

extension FormatStyle where Self == Date.ISO8601FormatStyle {
  fileprivate static var withMilliseconds: Self { Self(includingFractionalSeconds: true) }
}

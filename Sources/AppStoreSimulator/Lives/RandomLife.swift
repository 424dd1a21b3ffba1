import AppStore
import FoundationEssentials

/// A customer's life with an app, made up from a seed: purchases of several products, renewals, failures,
/// changes, refunds, a family, over weeks to years.
///
/// Each step lets some time pass and lets something happen that the store does not refuse. Instants at which
/// something changes are chosen more often than others: the end of the paid time to the millisecond, the last
/// millisecond of billing grace, the day before a renewal in which the App Store charges ahead, the same
/// millisecond as the step before. In between a device posts what it holds, which can be old.
///
/// ```swift
/// let life = RandomLife(seed: 7)
/// life.facts                                    // everything that was signed, oldest first
/// life.store.truth(of: life.purchases[0], at: life.end)
/// print(life)                                   // the history, for a person
/// ```
public struct RandomLife: Sendable {
  /// What the life was made from; the same seed and app give the same life.
  public let seed: UInt64
  /// The app whose customer it is.
  public let app: StoreApp
  /// The store as it is at the end; what it says for later instants is what time alone will do.
  public private(set) var store: SimulatedStore
  /// What happened, in order.
  public private(set) var events: [LifeEvent] = []
  /// What devices posted in between: facts signed for a notification, or the same signed again later.
  public private(set) var posts: [LifeFact] = []
  /// The original transaction ids of everything that was bought or shared, in order.
  public private(set) var purchases: [String] = []
  /// When the last thing happened.
  public private(set) var end: Date

  let subscriptionIDs: [String]
  let oneTimeIDs: [String]
  var random: SplitMix64
  /// The app's own ids of its customer; a device can change hands.
  var customerTokens: [UUID] = []

  /// Lives a life.
  ///
  /// - Parameters:
  ///   - seed: decides everything.
  ///   - app: what can be bought; see ``StoreApp/everything``.
  ///   - steps: at most so many things happen.
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

  /// Everything that was signed, each fact where it was first said: notifications, and what devices posted.
  public var facts: [LifeFact] { notificationFacts + posts }

  /// What Get Notification History tells: the facts of everything that was sent, oldest first.
  public var notificationFacts: [LifeFact] { store.notifications.flatMap(\.facts) }

  /// What Get All Subscription Statuses, and for one-time purchases Get Transaction Info, answer at
  /// `instant`, which is at the end or later: the last word on each purchase, signed then.
  public func statuses(at instant: Date) -> [LifeFact] {
    var store = store
    return purchases.flatMap { store.lastWord(on: $0, at: instant) }
  }

  // MARK: Steps

  /// Something happens that the store does not refuse.
  ///
  /// - Returns: false if nothing could happen, which only an app that sells nothing leads to.
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

  /// A device posts a transaction that it holds, as it was signed for a notification or signed again now, and
  /// perhaps the renewal info.
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

  /// Lets the store do something now; nil where it refuses.
  mutating func attempt<Value>(
    _ body: (inout SimulatedStore, Date) throws(StoreRefusal) -> Value
  ) -> Value? {
    do { return try body(&store, end) } catch { return nil }
  }
}

extension RandomLife: CustomStringConvertible {
  /// The history, a line for each event and each notification.
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

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
  public init(
    seed: UInt64, app: StoreApp = .everything, environment: Environment = .production,
    from start: Date = Date(timeIntervalSince1970: 1_767_225_600)
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
    let count = Int.random(in: 3...40, using: &random)
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

extension RandomLife {
  /// The kinds of acts with their frequencies.
  enum Act: CaseIterable {
    case subscribe, buyOnce, renew, fail, recover, endGrace, expire, stopRenewing, resumeRenewing
    case changeProduct, redeem, refund, refundEarlier, declineRefund, reverseRefund, requestConsumption
    case share, revoke, extend, failToExtend, extendAll, announcePrice, acceptPrice
    case externalPurchase, rescindConsent, test

    private var weight: Int {
      switch self {
      case .renew: 60
      case .subscribe, .fail, .recover: 20
      case .changeProduct, .endGrace: 12
      case .stopRenewing, .resumeRenewing, .expire, .refund, .redeem: 8
      case .buyOnce, .reverseRefund, .refundEarlier, .share: 6
      case .extend, .revoke, .announcePrice, .acceptPrice: 4
      case .requestConsumption, .declineRefund, .externalPurchase, .extendAll: 3
      case .failToExtend, .rescindConsent, .test: 1
      }
    }

    private static let lots = allCases.flatMap { Array(repeating: $0, count: $0.weight) }

    static func any(using random: inout SplitMix64) -> Act { lots.randomElement(using: &random) ?? .renew }
  }

  /// - Returns: a description; nil if the store refused or no purchase fits.
  mutating func carryOut(_ act: Act) -> String? {
    switch act {
    case .subscribe: subscribe()
    case .buyOnce: buyOnce()
    case .renew: isDue() ? perform(.renew) : nil
    case .fail:
      isDue() ? perform(.failToRenew(grace: [nil, true, false].randomElement(using: &random) ?? nil)) : nil
    case .recover: perform(.recover)
    case .endGrace: perform(.endGrace)
    case .expire:
      perform(
        .expire(
          [nil, .customerDidNotConsentToPriceIncrease, .productNotAvailable, .other]
            .randomElement(using: &random) ?? nil))
    case .stopRenewing: perform(.setAutoRenew(false))
    case .resumeRenewing: perform(.setAutoRenew(true))
    case .changeProduct:
      anySubscription().flatMap {
        perform(.changeProduct($0, appAccountToken: chance(20) ? customerTokens.last : nil))
      }
    case .redeem: perform(.redeem(anyOffer(), productID: chance(60) ? anySubscription() : nil))
    case .refund, .refundEarlier:
      perform(
        .refund(
          transactionID: act == .refund ? nil : anyTransaction(), percentage: chance(30) ? 40 : 100,
          reason: chance(50) ? .refundedDueToIssue : .refundedForOtherReason))
    case .declineRefund: perform(.declineRefund(transactionID: anyTransaction()))
    case .reverseRefund: perform(.reverseRefund(transactionID: chance(50) ? anyTransaction() : nil))
    case .requestConsumption:
      perform(.requestConsumption(transactionID: anyTransaction(), reason: .unsatisfiedWithPurchase))
    case .share: perform(.share(accountID: ["ben", "cat", "dan"].randomElement(using: &random)))
    case .revoke: perform(.revoke)
    case .extend: perform(.extend(days: Int.random(in: 1...90, using: &random)))
    case .failToExtend: perform(.failToExtend)
    case .announcePrice: perform(.announcePrice(5990))
    case .acceptPrice: perform(.acceptPrice)
    case .extendAll: extendAll()
    case .externalPurchase, .rescindConsent, .test: announce(act)
    }
  }

  // MARK: Purchases

  private mutating func subscribe() -> String? {
    guard let product = anySubscription() else { return nil }
    let offer = chance(40) ? anyOffer() : nil
    return buy(
      PurchaseRequest(
        bundleID: app.bundleID, productID: product, accountID: "ann", appAccountToken: anyToken(),
        offer: offer, announcesOffer: chance(30)))
  }

  private mutating func buyOnce() -> String? {
    guard let product = oneTimeIDs.randomElement(using: &random) else { return nil }
    return buy(
      PurchaseRequest(
        bundleID: app.bundleID, productID: product, accountID: "ann", appAccountToken: anyToken()))
  }

  private mutating func buy(_ request: PurchaseRequest) -> String? {
    let outcome = attempt { store, now throws(StoreRefusal) in try store.buy(request, at: now) }
    return outcome.map { _ in
      "buys \(request.productID)" + (request.offer.map { " with an offer of type \($0.type.rawValue)" } ?? "")
    }
  }

  // MARK: Commands

  /// Carries out a command on a fitting purchase.
  private mutating func perform(_ command: SubscriptionCommand) -> String? {
    guard let id = subject(of: command) else { return nil }
    let outcome = attempt { store, now throws(StoreRefusal) in try store.perform(command, on: id, at: now) }
    return outcome.map { _ in "\(command) on \(id)" }
  }

  private mutating func subject(of command: SubscriptionCommand) -> String? {
    switch command {
    case .refund(let named?, _, _), .declineRefund(let named?), .reverseRefund(let named?),
      .requestConsumption(let named?, _):
      return store.transactions[named]?.originalTransactionId
    case .renew, .failToRenew:
      return purchases.first(where: isDue)
    default: return purchases.randomElement(using: &random)
    }
  }

  /// Whether the store would charge now: from a day before the end of the paid period.
  private func isDue(_ id: String) -> Bool {
    guard let truth = store.truth(of: id, at: end), let expiresDate = truth.expiresDate else { return false }
    return truth.autoRenews && store.sharing.purchaser(of: id) == nil && end >= expiresDate - 86_400
  }

  private func isDue() -> Bool { purchases.contains(where: isDue) }

  private mutating func extendAll() -> String? {
    guard let product = anySubscription() else { return nil }
    let identifier = UUID(randomFrom: &random).uuidString.lowercased()
    let request = MassExtendRenewalDateRequest(
      productId: product, extendByDays: Int32(Int.random(in: 1...90, using: &random)),
      extendReasonCode: .other, requestIdentifier: identifier)
    let bundleID = app.bundleID
    let sent = attempt { store, now throws(StoreRefusal) in
      try store.extendAll(request, in: bundleID, at: now)
    }
    return sent.map { _ in "the app extends every \(product) by \(request.extendByDays) days" }
  }

  private mutating func announce(_ act: Act) -> String? {
    let bundleID = app.bundleID
    let notification: StoreNotification?
    switch act {
    case .externalPurchase:
      let token = store.externalPurchaseTokens.keys.sorted().first
      let event = ExternalPurchaseEvent.allCases.randomElement(using: &random) ?? .created
      notification = attempt { store, now throws(StoreRefusal) in
        try store.externalPurchase(event, id: token, bundleID: bundleID, at: now)
      }
    case .rescindConsent:
      notification = attempt { store, now throws(StoreRefusal) in
        try store.rescindConsent(bundleID: bundleID, accountID: "ann", at: now)
      }
    default:
      notification = attempt { store, now throws(StoreRefusal) in try store.test(bundleID: bundleID, at: now)
      }
    }
    return notification.map { "the store sends \($0.type.rawValue)" }
  }

  // MARK: Choices

  private mutating func anySubscription() -> String? {
    subscriptionIDs.randomElement(using: &random)
  }

  private mutating func anyTransaction() -> String? {
    purchases.randomElement(using: &random)
      .flatMap { store.transactionIDs(of: $0).randomElement(using: &random) }
  }

  private mutating func anyToken() -> UUID? {
    chance(80) ? customerTokens.first : chance(50) ? customerTokens.last : nil
  }

  private mutating func anyOffer() -> StoreOffer {
    let period = [StorePeriod.week, .month, StorePeriod(3, .day)].randomElement(using: &random) ?? .week
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return .freeTrial(period)
    case 1: return .discount(.promotionalOffer, period: period)
    case 2: return .discount(.offerCode, period: period)
    default: return .discount(.winBackOffer, period: period)
    }
  }
}

extension RandomLife {
  /// Passes time: none, some, or until about an instant at which the state changes by itself.
  mutating func pass() {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<20: break
    case 20..<35: advance(to: end + Double.random(in: 0..<3600, using: &random))
    case 35..<50: advance(to: end + Double.random(in: 0..<(20 * 86_400), using: &random))
    default: passToBoundary()
    }
  }

  private mutating func passToBoundary() {
    let boundaries =
      purchases.compactMap { store.truth(of: $0, at: end) }.flatMap(Self.boundaries)
      .filter { $0 >= end }.sorted()
    // Mostly the nearest one, so that renewals come in time.
    guard let boundary = chance(80) ? boundaries.first : boundaries.randomElement(using: &random) else {
      return advance(to: end + Double.random(in: 0..<(40 * 86_400), using: &random))
    }
    switch Int.random(in: 0..<6, using: &random) {
    case 0: advance(to: boundary - 0.001)
    case 1: advance(to: boundary + 0.001)
    case 2: advance(to: boundary + Double.random(in: 0..<86_400, using: &random))
    // The App Store charges up to a day ahead.
    case 3, 4: advance(to: boundary - Double.random(in: 0...86_400, using: &random))
    default: advance(to: boundary)
    }
  }

  private static func boundaries(of truth: PurchaseTruth) -> [Date] {
    guard let expiresDate = truth.expiresDate else { return [] }
    return [truth.purchaseDate, expiresDate, expiresDate + 60 * 86_400]
      + (truth.gracePeriodExpiresDate.map { [$0] } ?? [])
  }
}

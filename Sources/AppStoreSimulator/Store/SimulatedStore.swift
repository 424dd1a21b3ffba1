import AppStore
import Foundation

/// The App Store of one environment as a value: products, customers, purchases and notifications.
///
/// It does no I/O and has no clock: every command takes the time and returns the payloads that the store would sign and
/// send. The same seed and commands give the same results. Signed dates strictly increase, by a millisecond while the
/// clock stands still, because servers order facts by `signedDate`.
///
/// ```swift
/// var store = SimulatedStore(environment: .production, apps: [app], seed: 1)
/// let bought = try store.buy(PurchaseRequest(bundleID: "com.example", productID: "monthly"), at: start)
/// let id = bought.originalTransactionID
/// let renewed = try store.perform(.renew, on: id, at: start + month)
/// store.truth(of: id, at: start + month)?.status  // .active
/// ```
public struct SimulatedStore: Sendable {
  /// Production or sandbox.
  public let environment: Environment
  /// The length of periods.
  public let timeScale: TimeScale
  /// The apps by bundle id.
  public private(set) var apps: [String: StoreApp] = [:]
  /// All notifications, oldest first.
  public internal(set) var notifications: [StoreNotification] = []

  var transactions: [String: TransactionInfo] = [:]
  var subscriptions: [String: StoreSubscription] = [:]
  /// The downloads of each Apple Account by bundle id.
  var accounts: [String: [String: Download]] = [:]
  /// The original transaction ids of a customer's purchases, oldest first, by app transaction id.
  var purchases: [String: [String]] = [:]
  /// The undecided Ask to Buy requests.
  var pendingPurchases: [UUID: PurchaseRequest] = [:]
  /// The family sharing of purchases.
  var sharing = FamilySharing()
  /// The tokens of external purchases by id.
  var externalPurchaseTokens: [String: ExternalPurchaseToken] = [:]
  var identifiers: StoreIdentifiers
  var lastSigned = Date.distantPast

  /// Makes an empty store.
  public init(
    environment: Environment, apps: [StoreApp] = [], timeScale: TimeScale = .calendar, seed: UInt64
  ) {
    self.environment = environment
    self.timeScale = timeScale
    identifiers = StoreIdentifiers(environment: environment, seed: seed)
    for app in apps { put(app) }
  }

  /// Adds or replaces an app.
  public mutating func put(_ app: StoreApp) {
    apps[app.bundleID] = app
  }

  /// The date for signing: `now`, or a millisecond after the last one if the clock has not moved.
  mutating func signingDate(at now: Date) -> Date {
    let date = max(now.wholeMilliseconds, (lastSigned + 0.001).wholeMilliseconds)
    lastSigned = date
    return date
  }

  func app(_ bundleID: String) throws(StoreRefusal) -> StoreApp {
    guard let app = apps[bundleID] else { throw .unknownApp(bundleID) }
    return app
  }

  func product(_ productID: String, of bundleID: String) throws(StoreRefusal) -> StoreProduct {
    guard let product = try app(bundleID).products[productID] else { throw .unknownProduct(productID) }
    return product
  }

  func transaction(_ id: String) throws(StoreRefusal) -> TransactionInfo {
    guard let transaction = transactions[id] else { throw .unknownTransaction(id) }
    return transaction
  }

  func subscription(_ originalTransactionID: String) throws(StoreRefusal) -> StoreSubscription {
    guard let subscription = subscriptions[originalTransactionID] else {
      throw transactions[originalTransactionID] == nil
        ? .unknownTransaction(originalTransactionID) : .notASubscription(originalTransactionID)
    }
    return subscription
  }

  /// The current transaction of a subscription.
  func current(of subscription: StoreSubscription) throws(StoreRefusal) -> TransactionInfo {
    try transaction(subscription.transactionIDs.last ?? subscription.originalTransactionID)
  }
}

/// The result of a command.
public struct StoreOutcome: Hashable, Sendable {
  /// The notification.
  public var notification: StoreNotification
  /// The transaction of the notification.
  public var transaction: TransactionInfo
  /// The renewal info of a subscription.
  public var renewalInfo: RenewalInfo?
  /// The further notifications of the command, in order: renewal turned off, and one for each family member's purchase.
  public var others: [StoreNotification] = []

  /// The purchase of the transaction.
  public var originalTransactionID: String { transaction.originalTransactionId }
}

/// The download of an app by an Apple Account.
struct Download: Sendable {
  let appTransactionID: String
  let originalPurchaseDate: Date
}

/// The state of one subscription in the App Store Server API.
struct SubscriptionState: Sendable {
  var group: String
  var status: SubscriptionStatus
  var transaction: TransactionInfo
  var renewalInfo: RenewalInfo
}

extension SimulatedStore {
  /// The current state of a transaction, for signing now; nil for an unknown id.
  mutating func signable(
    _ transactionID: String, of bundleID: String, at now: Date
  ) -> TransactionInfo? {
    guard var transaction = transactions[transactionID], transaction.bundleId == bundleID else { return nil }
    transaction.signedDate = signingDate(at: now)
    return transaction
  }

  /// The transactions of a purchase, oldest first.
  func transactionIDs(of originalTransactionID: String) -> [String] {
    subscriptions[originalTransactionID]?.transactionIDs ?? [originalTransactionID]
  }

  /// The latest transaction of a purchase and the renewal info of a subscription, for signing now.
  mutating func lastWord(on originalTransactionID: String, at now: Date) -> [LifeFact] {
    let signedDate = signingDate(at: now)
    guard let latest = transactionIDs(of: originalTransactionID).last, var transaction = transactions[latest]
    else { return [] }
    transaction.signedDate = signedDate
    guard let subscription = subscriptions[originalTransactionID],
      let renewalInfo = try? renewalInfo(of: subscription, signedDate: signedDate)
    else { return [.transaction(transaction)] }
    return [.transaction(transaction), .renewal(renewalInfo)]
  }

  /// All current and former subscriptions of a customer in an app.
  ///
  /// - Parameter id: any transaction id of the customer, or the app transaction id.
  /// - Returns: nil for an unknown id.
  mutating func subscriptions(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) throws(StoreRefusal) -> [SubscriptionState]? {
    guard let customer = customer(with: id, in: bundleID) else { return nil }
    let signedDate = signingDate(at: now)
    var states: [SubscriptionState] = []
    for subscription in (purchases[customer] ?? []).compactMap({ subscriptions[$0] }) {
      var transaction = try current(of: subscription)
      transaction.signedDate = signedDate
      states.append(
        SubscriptionState(
          group: transaction.subscriptionGroupIdentifier ?? "",
          status: try status(of: subscription, at: signedDate), transaction: transaction,
          renewalInfo: try renewalInfo(of: subscription, signedDate: signedDate)))
    }
    return states
  }

  /// The app transaction id of the customer with a transaction id or app transaction id.
  func customer(with id: String, in bundleID: String) -> String? {
    if let transaction = transactions[id] {
      return transaction.bundleId == bundleID ? transaction.appTransactionId : nil
    }
    guard let first = purchases[id]?.first, transactions[first]?.bundleId == bundleID else { return nil }
    return id
  }
}

/// A transaction in a customer's history.
struct HistoryRecord: Sendable {
  /// The time of the last change, by which the App Store sorts.
  var modified: Date
  /// The current state of the transaction, for signing now.
  var transaction: TransactionInfo
}

extension SimulatedStore {
  /// All transactions of a customer in an app, ordered by modification.
  ///
  /// - Parameter id: any transaction id of the customer, or the app transaction id.
  /// - Returns: nil for an unknown id.
  mutating func history(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) -> [HistoryRecord]? {
    guard let customer = customer(with: id, in: bundleID) else { return nil }
    let signedDate = signingDate(at: now)
    return (purchases[customer] ?? [])
      .flatMap { subscriptions[$0]?.transactionIDs ?? [$0] }
      .compactMap { transactions[$0] }
      .map { transaction in
        // A stored transaction has the signed date of its last change.
        let modified = max(transaction.signedDate, transaction.revocationDate ?? .distantPast)
        var record = HistoryRecord(modified: modified.wholeMilliseconds, transaction: transaction)
        record.transaction.signedDate = signedDate
        return record
      }
      .sorted { ($0.modified, $0.transaction.transactionId) < ($1.modified, $1.transaction.transactionId) }
  }
}

extension SimulatedStore {
  /// The state at `now` of the purchase with a transaction, original or later; nil for an unknown id.
  public func truth(of transactionID: String, at now: Date) -> PurchaseTruth? {
    guard let named = transactions[transactionID] else { return nil }
    guard let subscription = subscriptions[named.originalTransactionId] else {
      return truth(of: named, status: named.revocationDate == nil ? .active : .revoked, at: now)
    }
    guard let current = try? current(of: subscription),
      let status = try? status(of: subscription, at: now)
    else { return nil }
    var truth = truth(of: current, status: status, at: now)
    if case .grace(let until) = subscription.billing { truth.gracePeriodExpiresDate = until }
    truth.autoRenews = subscription.autoRenews
    truth.renewsAs = subscription.autoRenews ? subscription.renewsAs : nil
    if current.purchaseDate > now {
      truth.entitledProductID = entitledProductID(of: subscription, at: now) ?? current.productId
    }
    return truth
  }

  /// The product that is paid for at `now`: before a renewal charged ahead begins, the previous one. A purchase or an
  /// upgrade counts at once.
  private func entitledProductID(of subscription: StoreSubscription, at now: Date) -> String? {
    var periods = subscription.transactionIDs.lazy.reversed().compactMap { transactions[$0] }.makeIterator()
    var entitled = periods.next()
    while let period = entitled, period.purchaseDate > now, period.transactionReason == .renewal,
      let before = periods.next(), before.revocationDate == nil, now < before.expiresDate ?? .distantFuture
    {
      entitled = before
    }
    return entitled?.productId
  }

  private func truth(
    of current: TransactionInfo, status: SubscriptionStatus, at now: Date
  ) -> PurchaseTruth {
    PurchaseTruth(
      originalTransactionID: current.originalTransactionId, transactionID: current.transactionId,
      bundleID: current.bundleId, environment: environment, productID: current.productId,
      entitledProductID: current.productId, type: current.type, ownership: current.inAppOwnershipType,
      appAccountToken: current.appAccountToken, purchaseDate: current.purchaseDate,
      expiresDate: current.expiresDate, status: status,
      grantsAccess: status == .active || status == .billingGracePeriod, autoRenews: false, asOf: now)
  }

  /// The status of a subscription at `now`. Time alone can end a period.
  func status(
    of subscription: StoreSubscription, at now: Date
  ) throws(StoreRefusal) -> SubscriptionStatus {
    let current = try current(of: subscription)
    if current.revocationDate != nil { return .revoked }
    if let expiresDate = current.expiresDate, now < expiresDate { return .active }
    switch subscription.billing {
    case .settled, .ended: return .expired
    case .grace(let until) where now < until: return .billingGracePeriod
    case .grace, .retrying: return now < retryEnd(after: current) ? .billingRetry : .expired
    }
  }

  /// The end of billing retry after `transaction`: Apple retries for at most 60 days.
  func retryEnd(after transaction: TransactionInfo) -> Date {
    transaction.expiresDate.map { timeScale.date($0, adding: StorePeriod(60, .day)) } ?? .distantFuture
  }
}

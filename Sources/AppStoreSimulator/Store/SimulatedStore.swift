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

import AppStore
import FoundationEssentials

/// The App Store of one environment as a value: what is on sale, who bought what, and what happened to it.
///
/// It does no input or output and has no clock: every command takes the time, and answers with what the
/// store would sign and send. The same seed and the same commands give the same answers. Time never turns
/// back in what it says: dates it signs are strictly increasing, by a millisecond where the clock stands
/// still, because the latest `signedDate` is how a server tells which of two facts is the newer.
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
  /// How long periods last.
  public let timeScale: TimeScale
  /// What is on sale, by bundle id.
  public private(set) var apps: [String: StoreApp] = [:]
  /// Everything sent, oldest first.
  public internal(set) var notifications: [StoreNotification] = []

  var transactions: [String: TransactionInfo] = [:]
  var subscriptions: [String: StoreSubscription] = [:]
  var accounts: [String: StoreAccount] = [:]
  /// The original transaction ids of what a customer bought in an app, by app transaction id, oldest first.
  var purchases: [String: [String]] = [:]
  /// What children asked for and nobody decided yet.
  var pendingPurchases: [UUID: PurchaseRequest] = [:]
  /// Who has what from whom.
  var sharing = FamilySharing()
  /// The tokens of external purchases, by their id.
  var externalPurchaseTokens: [String: ExternalPurchaseToken] = [:]
  /// What the API extended, and when.
  var extensions = RenewalExtensions()
  var identifiers: StoreIdentifiers
  var lastSigned = Date.distantPast

  /// An empty store.
  public init(
    environment: Environment, apps: [StoreApp] = [], timeScale: TimeScale = .calendar, seed: UInt64
  ) {
    self.environment = environment
    self.timeScale = timeScale
    identifiers = StoreIdentifiers(environment: environment, seed: seed)
    for app in apps { put(app) }
  }

  /// Puts an app on sale, or replaces what is known of it.
  public mutating func put(_ app: StoreApp) {
    apps[app.bundleID] = app
  }

  /// The date to sign with: `now`, or just after the last one if the clock has not moved.
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

  /// The transaction that a subscription stands on now.
  func current(of subscription: StoreSubscription) throws(StoreRefusal) -> TransactionInfo {
    try transaction(subscription.transactionIDs.last ?? subscription.originalTransactionID)
  }
}

/// What a command led to.
public struct StoreOutcome: Hashable, Sendable {
  /// The notification that the store sends, with the facts that it carries.
  public var notification: StoreNotification
  /// The transaction that it is about.
  public var transaction: TransactionInfo
  /// What is to come, for a subscription.
  public var renewalInfo: RenewalInfo?
  /// What else the store sends because of it, in order: that it turned renewal off, and to each family
  /// member what became of theirs.
  public var others: [StoreNotification] = []

  /// The purchase that the transaction belongs to.
  public var originalTransactionID: String { transaction.originalTransactionId }
}

/// An Apple Account.
struct StoreAccount: Sendable {
  /// What the account has of one app.
  struct Download: Sendable {
    let appTransactionID: String
    var originalPurchaseDate: Date
    var originalVersion: String
  }

  /// By bundle id.
  var downloads: [String: Download] = [:]
}

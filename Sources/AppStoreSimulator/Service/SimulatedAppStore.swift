import AppStore
import FoundationEssentials
import Synchronization

/// The App Store as the outside sees it: a ``SimulatedStore`` for each environment, whose facts are signed,
/// remembered and sent to a webhook.
///
/// ```swift
/// let store = try SimulatedAppStore(apps: [app])
/// let bought = try store.buy(PurchaseRequest(bundleID: "com.example", productID: "monthly"))
/// let renewed = try store.perform(.renew, on: bought.originalTransactionID)
/// let delivery = await store.deliver(renewed.notification.uuid)
/// ```
public final class SimulatedAppStore: Sendable {
  /// Who signs, and whose tokens the API takes.
  public let identity: StoreIdentity

  private let clock: @Sendable () -> Date
  private let sender: any NotificationSender
  private let state: Mutex<State>

  private struct State {
    var stores: [Environment: SimulatedStore]
    var log = NotificationLog()
    var webhook: String?
  }

  /// A store with these apps on sale and nothing sold.
  ///
  /// - Parameters:
  ///   - identity: a new one by default.
  ///   - webhook: where notifications go; without one they are only remembered.
  ///   - seed: decides every id that the store gives out.
  ///   - clock: the store's time.
  ///   - sender: what carries notifications to the webhook.
  public init(
    identity: StoreIdentity? = nil, apps: [StoreApp] = [], timeScale: TimeScale = .calendar,
    webhook: String? = nil, seed: UInt64 = .random(in: .min ... .max),
    clock: @escaping @Sendable () -> Date = { Date() },
    sender: any NotificationSender = CurlNotificationSender()
  ) throws {
    self.identity = try identity ?? StoreIdentity(authority: SigningAuthority())
    self.clock = clock
    self.sender = sender
    let stores = [Environment.production, .sandbox].map {
      ($0, SimulatedStore(environment: $0, apps: apps, timeScale: timeScale, seed: seed))
    }
    state = Mutex(State(stores: Dictionary(uniqueKeysWithValues: stores), webhook: webhook))
  }

  /// Puts an app on sale in both environments.
  public func put(_ app: StoreApp) {
    state.withLock { state in
      for environment in state.stores.keys { state.stores[environment]?.put(app) }
    }
  }

  /// The app of that bundle id.
  public func app(_ bundleID: String) -> StoreApp? {
    state.withLock { $0.stores[.production]?.apps[bundleID] }
  }

  /// Sets where notifications go; nil for nowhere.
  public func setWebhook(_ url: String?) {
    state.withLock { $0.webhook = url }
  }

  /// A customer buys. See ``SimulatedStore/buy(_:at:)``.
  public func buy(
    _ request: PurchaseRequest, in environment: Environment = .production
  ) throws -> SignedOutcome {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in try store.buy(request, at: now) })
  }

  /// Something happens to a purchase. See ``SimulatedStore/perform(_:on:at:)``.
  public func perform(
    _ command: SubscriptionCommand, on originalTransactionID: String
  ) throws -> SignedOutcome {
    try record(
      withStore(having: originalTransactionID) { store, now throws(StoreRefusal) in
        try store.perform(command, on: originalTransactionID, at: now)
      })
  }

  /// The `TEST` notification of an app.
  public func test(
    bundleID: String, in environment: Environment = .production
  ) throws -> SignedNotification {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in
        try store.test(bundleID: bundleID, at: now)
      })
  }

  /// Something happens to an external purchase token. See
  /// ``SimulatedStore/externalPurchase(_:id:bundleID:at:)``.
  public func externalPurchase(
    _ event: ExternalPurchaseEvent, id: String? = nil, bundleID: String,
    in environment: Environment = .production
  ) throws -> SignedNotification {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in
        try store.externalPurchase(event, id: id, bundleID: bundleID, at: now)
      })
  }

  /// A parent withdraws consent. See ``SimulatedStore/rescindConsent(bundleID:accountID:at:)``.
  public func rescindConsent(
    bundleID: String, accountID: String? = nil, in environment: Environment = .production
  ) throws -> SignedNotification {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in
        try store.rescindConsent(bundleID: bundleID, accountID: accountID, at: now)
      })
  }

  /// A signed app transaction. See ``SimulatedStore/appTransaction(of:accountID:originalPurchaseDate:originalVersion:at:)``.
  public func appTransaction(
    of bundleID: String, accountID: String? = nil, originalPurchaseDate: Date? = nil,
    originalVersion: String? = nil, in environment: Environment = .production
  ) throws -> (payload: AppTransaction, signed: String) {
    let payload = try withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.appTransaction(
        of: bundleID, accountID: accountID, originalPurchaseDate: originalPurchaseDate,
        originalVersion: originalVersion, at: now)
    }
    return (payload, try identity.authority.signer.sign(payload))
  }

  /// What is true now of the purchase that a transaction belongs to.
  public func truth(of transactionID: String) -> PurchaseTruth? {
    let now = clock()
    return state.withLock { state in
      state.stores.values.lazy.compactMap { $0.truth(of: transactionID, at: now) }.first
    }
  }

  // MARK: Notifications

  /// Every notification, oldest first.
  public var notifications: [SignedNotification] { state.withLock { $0.log.all } }

  /// The notification of that UUID.
  public func notification(_ uuid: String) -> SignedNotification? { state.withLock { $0.log[uuid] } }

  /// Whether notifications go anywhere.
  public var hasWebhook: Bool { state.withLock { $0.webhook != nil } }

  /// Posts a notification to the webhook, the first time or once more, and remembers how that went.
  ///
  /// - Returns: the attempt; nil if there is no such notification or no webhook.
  @discardableResult
  public func deliver(_ uuid: String) async -> SendAttempt? {
    let (notification, webhook) = state.withLock { ($0.log[uuid], $0.webhook) }
    guard let notification, let webhook else { return nil }
    let attemptDate = clock()
    let outcome = await sender.send(notification.signedPayload, to: webhook)
    let attempt = SendAttempt(attemptDate: attemptDate, outcome: outcome)
    state.withLock { $0.log.append(attempt, to: uuid) }
    return attempt
  }

  // MARK: The store's two halves

  /// Lets the API read a store, at the store's time.
  func withStore<Value: Sendable>(
    of environment: Environment,
    _ body: (inout SimulatedStore, Date) throws(StoreRefusal) -> Value
  ) throws(StoreRefusal) -> Value {
    let now = clock()
    return try state.withLock { state throws(StoreRefusal) in
      guard var store = state.stores[environment] else {
        throw .unknownEnvironment(environment.rawValue)
      }
      // Taken out, so that the store is changed in place and not copied.
      state.stores[environment] = nil
      defer { state.stores[environment] = store }
      return try body(&store, now)
    }
  }

  private func withStore<Value: Sendable>(
    having transactionID: String,
    _ body: (inout SimulatedStore, Date) throws(StoreRefusal) -> Value
  ) throws(StoreRefusal) -> Value {
    let environment = state.withLock { state in
      state.stores.values.first { $0.transactions[transactionID] != nil }?.environment
    }
    guard let environment else { throw .unknownTransaction(transactionID) }
    return try withStore(of: environment, body)
  }

  private func record(_ outcome: StoreOutcome) throws -> SignedOutcome {
    let signed = try SignedOutcome(outcome, by: identity.authority.signer)
    state.withLock { state in
      for notification in [signed.notification] + signed.others { state.log.append(notification) }
    }
    return signed
  }

  private func record(_ notification: StoreNotification) throws -> SignedNotification {
    let signed = try SignedNotification(notification, by: identity.authority.signer)
    state.withLock { $0.log.append(signed) }
    return signed
  }
}

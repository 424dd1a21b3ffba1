import AppStore
import Foundation
import Synchronization

/// A simulated App Store: a ``SimulatedStore`` for each environment, whose payloads are signed, recorded and sent to a
/// webhook.
///
/// ```swift
/// let store = try SimulatedAppStore(apps: [app])
/// let bought = try store.buy(PurchaseRequest(bundleID: "com.example", productID: "monthly"))
/// let renewed = try store.perform(.renew, on: bought.originalTransactionID)
/// let delivery = await store.deliver(renewed.notification.uuid)
/// ```
public final class SimulatedAppStore: Sendable {
  /// The signing authority and the key of the API.
  public let identity: StoreIdentity
  /// The store's clock.
  public let clock: VirtualClock

  let timeScale: TimeScale
  let sender: any NotificationSender
  let state: Mutex<State>

  struct State {
    var stores: [Environment: SimulatedStore]
    var log = NotificationLog()
    var webhook: String?
    var retries: Bool
    var plan: DeliveryPlan
    /// The task that sends due notifications.
    var delivering: Task<[String], Never>?
    var faults: [ServerFault] = []
    var consumption: [ConsumptionReport] = []
    var accepted: [AcceptedRequest] = []
  }

  /// - Parameters:
  ///   - identity: a new one by default.
  ///   - webhook: the address for notifications; nil only records them.
  ///   - seed: determines the ids and the random faults.
  ///   - retries: whether failed notifications are sent again on Apple's schedule.
  ///   - sender: sends notifications to the webhook.
  public init(
    identity: StoreIdentity? = nil, apps: [StoreApp] = [], timeScale: TimeScale = .calendar,
    webhook: String? = nil, seed: UInt64 = .random(in: .min ... .max), clock: VirtualClock = VirtualClock(),
    retries: Bool = false, sender: any NotificationSender = CurlNotificationSender()
  ) throws {
    self.identity = try identity ?? StoreIdentity(authority: SigningAuthority())
    self.clock = clock
    self.timeScale = timeScale
    self.sender = sender
    let stores = [Environment.production, .sandbox].map {
      ($0, SimulatedStore(environment: $0, apps: apps, timeScale: timeScale, seed: seed))
    }
    state = Mutex(
      State(
        stores: Dictionary(uniqueKeysWithValues: stores), webhook: webhook, retries: retries,
        plan: DeliveryPlan(seed: seed)))
  }

  /// Adds an app to both environments.
  public func put(_ app: StoreApp) {
    state.withLock { state in
      for environment in state.stores.keys { state.stores[environment]?.put(app) }
    }
  }

  /// The app with a bundle id.
  public func app(_ bundleID: String) -> StoreApp? {
    state.withLock { $0.stores[.production]?.apps[bundleID] }
  }

  /// Buys a product. See ``SimulatedStore/buy(_:at:)``.
  public func buy(
    _ request: PurchaseRequest, in environment: Environment = .production
  ) throws -> SignedOutcome {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in try store.buy(request, at: now) })
  }

  /// Carries out a command on a purchase. See ``SimulatedStore/perform(_:on:at:)``.
  public func perform(
    _ command: SubscriptionCommand, on originalTransactionID: String
  ) throws -> SignedOutcome {
    try record(
      withStore(having: originalTransactionID) { store, now throws(StoreRefusal) in
        try store.perform(command, on: originalTransactionID, at: now)
      })
  }

  /// Sends the `TEST` notification of an app.
  public func test(
    bundleID: String, in environment: Environment = .production
  ) throws -> SignedNotification {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in
        try store.test(bundleID: bundleID, at: now)
      })
  }

  /// Sends an event of an external purchase token. See
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

  /// Withdraws a parent's consent. See ``SimulatedStore/rescindConsent(bundleID:accountID:at:)``.
  public func rescindConsent(
    bundleID: String, accountID: String? = nil, in environment: Environment = .production
  ) throws -> SignedNotification {
    try record(
      withStore(of: environment) { store, now throws(StoreRefusal) in
        try store.rescindConsent(bundleID: bundleID, accountID: accountID, at: now)
      })
  }

  /// Returns a signed app transaction. See
  /// ``SimulatedStore/appTransaction(of:accountID:originalPurchaseDate:at:)``.
  public func appTransaction(
    of bundleID: String, accountID: String? = nil, originalPurchaseDate: Date? = nil,
    in environment: Environment = .production
  ) throws -> (payload: AppTransaction, signed: String) {
    let payload = try withStore(of: environment) { store, now throws(StoreRefusal) in
      try store.appTransaction(
        of: bundleID, accountID: accountID, originalPurchaseDate: originalPurchaseDate, at: now)
    }
    return (payload, try identity.authority.signer.sign(payload))
  }

  /// The true state of the purchase with a transaction.
  public func truth(of transactionID: String) -> PurchaseTruth? {
    let now = clock.now
    return state.withLock { state in
      state.stores.values.lazy.compactMap { $0.truth(of: transactionID, at: now) }.first
    }
  }

  // MARK: Environments

  /// Runs `body` on the store of an environment at the current time.
  func withStore<Value: Sendable>(
    of environment: Environment,
    _ body: (inout SimulatedStore, Date) throws(StoreRefusal) -> Value
  ) throws(StoreRefusal) -> Value {
    let now = clock.now
    return try state.withLock { state throws(StoreRefusal) in
      guard var store = state.stores[environment] else {
        throw .unknownEnvironment(environment.rawValue)
      }
      // Removed while it changes, so that the value is not copied.
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

  func record(_ outcome: StoreOutcome) throws -> SignedOutcome {
    let signed = try SignedOutcome(outcome, by: identity.authority.signer)
    state.withLock { state in
      for notification in [signed.notification] + signed.others { state.log.append(notification) }
    }
    return signed
  }

  func record(_ notification: StoreNotification) throws -> SignedNotification {
    let signed = try SignedNotification(notification, by: identity.authority.signer)
    state.withLock { $0.log.append(signed) }
    return signed
  }
}

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
    let stores = [Environment.production, .sandbox, .xcode].map {
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
    return (payload, try identity.signer(of: environment).sign(payload))
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
    let signed = try SignedOutcome(outcome, by: identity.signer(of: outcome.transaction.environment))
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

extension SimulatedAppStore {
  /// Every notification, oldest first.
  public var notifications: [SignedNotification] { state.withLock { $0.log.all } }

  /// The notification with a UUID.
  public func notification(_ uuid: String) -> SignedNotification? { state.withLock { $0.log[uuid] } }

  /// Sets the webhook; nil turns delivery off.
  public func setWebhook(_ url: String?) {
    state.withLock { $0.webhook = url }
  }

  /// Whether a webhook is set.
  public var hasWebhook: Bool { state.withLock { $0.webhook != nil } }

  /// Turns retries of later failures on or off.
  public func setRetries(_ isOn: Bool) {
    state.withLock { $0.retries = isOn }
  }

  /// Delivers a notification to the webhook, subject to ``DeliveryFaults``, and records the attempt.
  ///
  /// - Returns: the attempt; nil without one: unknown notification, no webhook, or held by a fault.
  @discardableResult
  public func deliver(_ uuid: String) async -> SendAttempt? {
    let uuids = state.withLock { state in
      state.webhook == nil || state.log[uuid] == nil ? [] : state.plan.admit(uuid)
    }
    for uuid in uuids { await send(uuid) }
    return uuids.isEmpty ? nil : notification(uuid)?.attempts.last
  }

  /// Posts a notification now. Only the faults `loss`, `lose` and `duplicates` apply.
  func send(_ uuid: String) async {
    let (payload, webhook, copies) = state.withLock { state in
      (state.log[uuid]?.signedPayload, state.webhook, state.plan.copies())
    }
    guard let payload, let webhook else { return }
    guard copies > 0 else { return note(SendOutcome(result: .timedOut), of: uuid, at: clock.now) }
    for _ in 0..<copies {
      let date = clock.now
      note(await sender.send(payload, to: webhook), of: uuid, at: date)
    }
  }

  private func note(_ outcome: SendOutcome, of uuid: String, at date: Date) {
    state.withLock { state in
      let retries = state.retries
      state.log.update(uuid) { notification in
        notification.attempts.append(SendAttempt(attemptDate: date, outcome: outcome))
        notification.nextAttempt = retries ? notification.retryDate(in: timeScale) : nil
      }
    }
  }

  // MARK: Scheduled deliveries

  /// Sends the notifications that are due by the store's clock, the longest overdue first.
  ///
  /// - Returns: their UUIDs.
  @discardableResult
  public func deliverDue() async -> [String] {
    // Calls run one after the other, so that each returns after all due notifications were sent.
    let task = state.withLock { state in
      let earlier = state.delivering
      let task = Task {
        _ = await earlier?.value
        return await self.sendDue()
      }
      state.delivering = task
      return task
    }
    return await task.value
  }

  private func sendDue() async -> [String] {
    let now = clock.now
    let due = state.withLock { $0.webhook == nil ? [] : $0.log.takeDue(at: now) }
    for uuid in due { await send(uuid) }
    return due
  }

  /// Sends notifications as they become due, until the task is cancelled.
  public func keepDelivering() async {
    while !Task.isCancelled {
      await deliverDue()
      try? await Task.sleep(for: .milliseconds(250))
    }
  }

  // MARK: Faults

  /// The active delivery faults.
  public var deliveryFaults: DeliveryFaults { state.withLock { $0.plan.faults } }

  /// Replaces the delivery faults and sends the held notifications.
  public func setDeliveryFaults(_ faults: DeliveryFaults) async {
    for uuid in state.withLock({ $0.plan.set(faults) }) { await send(uuid) }
  }
}

/// A received body of Send Consumption Information.
public struct ConsumptionReport: Encodable, Sendable {
  /// The transaction.
  public let transactionID: String
  /// The body.
  public let body: ConsumptionRequest
}

/// A request that changed a purchase, or told the store something, and was accepted.
public struct AcceptedRequest: Sendable {
  /// The endpoint.
  public let endpoint: ServerEndpoint
  /// The body as received.
  public let body: [UInt8]
}

// Faults, accepted requests and consumption reports of the App Store Server API, for tests.
extension SimulatedAppStore {
  /// The active faults; the first one that applies to a request is used.
  public var serverFaults: [ServerFault] { state.withLock { $0.faults } }

  /// Adds a fault after the active ones.
  public func add(_ fault: ServerFault) {
    state.withLock { $0.faults.append(fault) }
  }

  /// Removes all faults.
  public func clearServerFaults() {
    state.withLock { $0.faults = [] }
  }

  func takeFault(for endpoint: ServerEndpoint, in environment: Environment) -> ServerFault? {
    state.withLock { $0.faults.take(for: endpoint, in: environment) }
  }

  /// The accepted requests with a body, oldest first.
  public var acceptedRequests: [AcceptedRequest] { state.withLock { $0.accepted } }

  func keep(_ request: AcceptedRequest) {
    state.withLock { $0.accepted.append(request) }
  }

  /// The consumption reports, oldest first.
  public var consumptionReports: [ConsumptionReport] { state.withLock { $0.consumption } }

  func keep(_ report: ConsumptionReport) {
    state.withLock { $0.consumption.append(report) }
  }
}

/// The notifications of a store, indexed by UUID.
struct NotificationLog: Sendable {
  private(set) var all: [SignedNotification] = []
  private var positions: [String: Int] = [:]

  subscript(uuid: String) -> SignedNotification? { positions[uuid].map { all[$0] } }

  mutating func append(_ notification: SignedNotification) {
    positions[notification.uuid] = all.count
    all.append(notification)
  }

  mutating func update(_ uuid: String, _ change: (inout SignedNotification) -> Void) {
    guard let position = positions[uuid] else { return }
    change(&all[position])
  }

  /// Returns the notifications that are due, the longest overdue first. They are no longer due then.
  mutating func takeDue(at now: Date) -> [String] {
    let due = all.compactMap { one in one.nextAttempt.map { (date: $0, uuid: one.uuid) } }
      .filter { $0.date <= now }.sorted { $0 < $1 }.map(\.uuid)
    for uuid in due { update(uuid) { $0.nextAttempt = nil } }
    return due
  }
}

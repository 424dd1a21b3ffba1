import AppStore
import Foundation
import Synchronization

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

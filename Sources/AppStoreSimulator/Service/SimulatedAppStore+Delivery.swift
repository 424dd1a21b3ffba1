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
    wakeDelivery()
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
    let verdict = state.withLock { state -> DeliveryPlan.Verdict? in
      state.webhook == nil || state.log[uuid] == nil ? nil : state.plan.judge(uuid)
    }
    switch verdict {
    case nil, .hold: return nil
    case .send: return await send(uuid)
    case .release(let uuids):
      for uuid in uuids { await send(uuid) }
      return notification(uuid)?.attempts.last
    case .putOff(let seconds):
      let due = clock().addingTimeInterval(seconds)
      state.withLock { $0.queue.putOff(uuid, until: due) }
      wakeDelivery()
      return nil
    }
  }

  /// Posts a notification now. Only the faults `loss`, `lose` and `duplicates` apply.
  @discardableResult
  func send(_ uuid: String) async -> SendAttempt? {
    let (payload, webhook, copies) = state.withLock { state in
      (state.log[uuid]?.signedPayload, state.webhook, state.plan.copies())
    }
    guard let payload, let webhook else { return nil }
    guard copies > 0 else {
      return note(SendOutcome(result: .timedOut), of: uuid, at: clock())
    }
    var attempt: SendAttempt?
    for _ in 0..<copies {
      let date = clock()
      attempt = note(await sender.send(payload, to: webhook), of: uuid, at: date)
    }
    return attempt
  }

  private func note(_ outcome: SendOutcome, of uuid: String, at date: Date) -> SendAttempt {
    let attempt = SendAttempt(attemptDate: date, outcome: outcome)
    state.withLock { state in
      state.log.append(attempt, to: uuid)
      guard let notification = state.log[uuid] else { return }
      if notification.isDelivered {
        state.queue.delivered(uuid)
      } else if state.retries, notification.content.environment == .production {
        // The sandbox never retries.
        state.queue.failed(uuid, at: date, outcome: outcome)
      }
    }
    wakeDelivery()
    return attempt
  }

  // MARK: Scheduled deliveries

  /// The time of the next attempt; nil if there is none.
  public func nextAttempt(of uuid: String) -> Date? { state.withLock { $0.queue.due(uuid) } }

  /// Sends the notifications that are due by the store's clock.
  ///
  /// - Returns: their UUIDs, the longest overdue first.
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
    let now = clock()
    let due = state.withLock { $0.webhook == nil ? [] : $0.queue.takeDue(at: now) }
    await withTaskGroup(of: Void.self) { group in
      for (index, uuid) in due.enumerated() {
        // Up to 16 at once, so that a slow webhook does not delay the rest.
        if index >= 16 { await group.next() }
        group.addTask { _ = await self.send(uuid) }
      }
    }
    return due
  }

  /// Sends notifications as they become due, until the task is cancelled. Only one task may call this at a time.
  public func keepDelivering() async {
    let (wakeUps, wakeUp) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { $0.wakeUp = wakeUp }
    wakeUp.yield()
    var timer: Task<Void, any Error>?
    for await _ in wakeUps {
      timer?.cancel()
      await deliverDue()
      guard let wait = secondsUntilNextDue() else { continue }
      timer = Task {
        try await Task.sleep(for: .seconds(wait))
        wakeUp.yield()
      }
    }
    timer?.cancel()
  }

  private func secondsUntilNextDue() -> Double? {
    guard let due = state.withLock({ $0.webhook == nil ? nil : $0.queue.nextDue }) else { return nil }
    guard let virtualClock else {
      // The rate of the caller's clock is unknown, so it is polled.
      return min(max(due.timeIntervalSince(clock()), 0.01), 0.25)
    }
    // At most a day, because a duration is bounded.
    return virtualClock.realSeconds(until: due).map { min($0 + 0.001, 86_400) }
  }

  /// Wakes `keepDelivering()`.
  func wakeDelivery() {
    _ = state.withLock { $0.wakeUp }?.yield()
  }

  // MARK: Faults

  /// The active delivery faults.
  public var deliveryFaults: DeliveryFaults { state.withLock { $0.plan.faults } }

  /// Replaces the delivery faults and sends the held notifications.
  public func setDeliveryFaults(_ faults: DeliveryFaults) async {
    for uuid in state.withLock({ $0.plan.set(faults) }) { await send(uuid) }
  }

  /// Sends the notifications that are held for reordering.
  public func releaseHeld() async {
    for uuid in state.withLock({ $0.plan.release() }) { await send(uuid) }
  }
}

import AppStore
import FoundationEssentials
import Synchronization

extension SimulatedAppStore {
  /// Every notification, oldest first.
  public var notifications: [SignedNotification] { state.withLock { $0.log.all } }

  /// The notification of that UUID.
  public func notification(_ uuid: String) -> SignedNotification? { state.withLock { $0.log[uuid] } }

  /// Sets where notifications go; nil for nowhere.
  public func setWebhook(_ url: String?) {
    state.withLock { $0.webhook = url }
    ringBell()
  }

  /// Whether notifications go anywhere.
  public var hasWebhook: Bool { state.withLock { $0.webhook != nil } }

  /// Whether notifications that fail from now on become due again.
  public func setRetries(_ isOn: Bool) {
    state.withLock { $0.retries = isOn }
  }

  /// Hands a notification to the way to the webhook, where ``DeliveryFaults`` may befall it, and remembers
  /// how that went.
  ///
  /// - Returns: the attempt; nil if none was made: there is no such notification or no webhook, or it is
  ///   held back.
  @discardableResult
  public func deliver(_ uuid: String) async -> SendAttempt? {
    let verdict = state.withLock { state -> DeliveryWay.Verdict? in
      state.webhook == nil || state.log[uuid] == nil ? nil : state.way.judge(uuid)
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
      ringBell()
      return nil
    }
  }

  /// Posts a notification now, whatever holds others back; it can still be lost on the way.
  @discardableResult
  func send(_ uuid: String) async -> SendAttempt? {
    let (payload, webhook, copies) = state.withLock { state in
      (state.log[uuid]?.signedPayload, state.webhook, state.way.copies())
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
        // The sandbox never tries again.
        state.queue.failed(uuid, at: date, outcome: outcome)
      }
    }
    ringBell()
    return attempt
  }

  // MARK: What is sent later

  /// When a notification will be sent that failed or was put off; nil if it will not.
  public func nextAttempt(of uuid: String) -> Date? { state.withLock { $0.queue.due(uuid) } }

  /// Sends what is due by the store's clock: what failed before and what was put off.
  ///
  /// - Returns: the UUIDs of what was sent, the longest overdue first.
  @discardableResult
  public func deliverDue() async -> [String] {
    // One after the other: whoever has wound the clock and comes second waits for what the first took.
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
        // One server that is slow to answer must not keep back all that is due for long.
        if index >= 16 { await group.next() }
        group.addTask { _ = await self.send(uuid) }
      }
    }
    return due
  }

  /// Sends what becomes due, as the clock runs or is wound, until the task is cancelled. One task may do so
  /// at a time.
  public func keepDelivering() async {
    let (rings, bell) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { $0.bell = bell }
    bell.yield()
    var timer: Task<Void, any Error>?
    for await _ in rings {
      timer?.cancel()
      await deliverDue()
      guard let wait = secondsUntilNextDue() else { continue }
      timer = Task {
        try await Task.sleep(for: .seconds(wait))
        bell.yield()
      }
    }
    timer?.cancel()
  }

  private func secondsUntilNextDue() -> Double? {
    guard let due = state.withLock({ $0.webhook == nil ? nil : $0.queue.nextDue }) else { return nil }
    guard let virtualClock else {
      // Nobody says how fast a clock of the caller's runs, so it is looked at again and again.
      return min(max(due.timeIntervalSince(clock()), 0.01), 0.25)
    }
    // Not beyond a day, because a duration has an end.
    return virtualClock.realSeconds(until: due).map { min($0 + 0.001, 86_400) }
  }

  func ringBell() {
    _ = state.withLock { $0.bell }?.yield()
  }

  // MARK: Faults

  /// What goes wrong on the way to the webhook.
  public var deliveryFaults: DeliveryFaults { state.withLock { $0.way.faults } }

  /// Puts faults on the way to the webhook in force, in place of those that were, and sends what these held
  /// back.
  public func setDeliveryFaults(_ faults: DeliveryFaults) async {
    for uuid in state.withLock({ $0.way.set(faults) }) { await send(uuid) }
  }

  /// Sends what is held back to be reordered, though the number is not complete.
  public func releaseHeld() async {
    for uuid in state.withLock({ $0.way.release() }) { await send(uuid) }
  }
}

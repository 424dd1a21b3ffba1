import Foundation

extension Core {
  // MARK: Events

  @inline(never) func track(_ event: String, _ properties: [String: EventValue]) {
    load()
    let queued = QueuedEvent(
      customerID: customer?.id ?? installation, name: event, at: board.now, properties: properties)
    guard queued.isValid else { return }
    events.append(queued)
    saveEvents()
    if eventsSince == nil {
      eventsSince = uptime
      wake()
    }
  }

  /// The customer of events before the first sign-in: a random id.
  private var installation: String {
    let id = try? configuration.id(StoreKeys.installation, in: configuration.queues, prefix: "installation-")
    // Where it cannot be kept, the next event has another one.
    return id ?? "installation-\(UUID().uuidString)"
  }

  /// Sends one request with events.
  @inline(never) func sendEvents() async {
    await eventTurn.enter()
    await sendBatch()
    await eventTurn.leave()
  }

  @inline(never) private func sendBatch() async {
    let batch = dueBatch()
    guard !batch.isEmpty else { return }
    do {
      let answer = try await api.send(report(of: batch))
      guard answer["accepted"] != nil else {
        throw ReceiptdError.unexpected(status: 200, "the response does not say that the events arrived")
      }
      settle(batch)
      eventPace.succeed()
      serverAnswered()
    } catch {
      failed(batch, error)
    }
  }

  @inline(never) private func dueBatch() -> [QueuedEvent] {
    events.dropOld(at: board.now)
    let batch = events.batch()
    if batch.isEmpty { eventsSince = nil }
    return batch
  }

  @inline(never) private func report(of batch: [QueuedEvent]) -> API.Call {
    let now = board.now
    return API.post(
      "events",
      .members(
        ("bundleID", .text(configuration.bundleID)), ("customerID", JSON(batch.first?.customerID)),
        // The device's clock may have been ahead when the event happened.
        ("events", .list(batch.map { $0.json(at: min($0.at, now)) }))), of: nil)
  }

  @inline(never) private func failed(_ batch: [QueuedEvent], _ error: any Error) {
    let error = error as? ReceiptdError ?? .offline("cancelled")
    if error.isFinal {
      settle(batch)
    } else {
      eventPace.fail(error, at: uptime, random: configuration.random(), first: Pace.background)
    }
  }

  @inline(never) private func settle(_ batch: [QueuedEvent]) {
    events.remove(batch)
    saveEvents()
    // A full queue leaves in several requests, a second or two apart.
    eventsSince =
      events.events.isEmpty ? nil : uptime - configuration.eventDelay + 1 + configuration.random()
  }

  // MARK: Running

  @inline(never) func run() async {
    isRunning = true
    defer { isRunning = false }
    while !Task.isCancelled { await pause(step()) }
  }

  /// Does what is due now.
  /// - Returns: the seconds until the next step.
  @inline(never) func step() async -> TimeInterval {
    load()
    if hasProofs, proofPace.due <= uptime { await sendProofs() }
    if customer != nil, refreshDue <= uptime { _ = try? await refresh() }
    if eventsDue <= uptime { await sendEvents() }
    return secondsUntilNextStep()
  }

  /// Notes the time and tells the listeners. Not a part of ``step()``: the compiler repeats what follows an `await` for each way to it.
  @inline(never) private func secondsUntilNextStep() -> TimeInterval {
    let clock = configuration.clock
    board.state.with { $0.time.note(clock) }
    saveTime()
    board.publish()

    var due = min(uptime + 3600, eventsDue)
    if customer != nil { due = min(due, refreshDue) }
    for proof in proofs where proof.customer == customer {
      due = min(due, max(proofPace.due, proof.pace?.due ?? 0))
    }
    // The end of offline use, which the listeners learn.
    if let end = board.held?.claims.exp {
      let left = end - board.now.timeIntervalSince1970
      if left > 0 { due = min(due, uptime + left) }
    }
    return max(0.1, due - uptime)
  }

  private var hasProofs: Bool { proofs.contains { $0.customer == customer } }

  private var eventsDue: TimeInterval {
    guard let eventsSince, !events.events.isEmpty else { return .infinity }
    return max(eventPace.due, eventsSince + configuration.eventDelay)
  }

  /// Plans the next refresh: a second after the entitlement changes, or at the interval. Many customers' entitlements may
  /// change at the same time, so each waits a little longer at random.
  @inline(never) func scheduleRefresh() {
    let random = configuration.random()
    var delay = configuration.refreshInterval * (0.8 + 0.4 * random)
    if let claims = board.held?.claims, let end = claims.validUntil {
      let left = end - board.now.timeIntervalSince1970
      let spread = min(10, max(0, end - claims.iat) / 10)
      // A server that answers with an end in the past is not asked every second.
      delay = min(delay, left > 0 ? left + 1 + random * spread : 60)
    }
    refreshDue = uptime + delay
  }

  /// The server answers, so what waits for its return need not wait longer.
  @inline(never) func serverAnswered() {
    proofPace.relax(at: uptime, random: configuration.random())
    eventPace.relax(at: uptime, random: configuration.random())
    if refreshPace.failures > 0 {
      refreshPace.relax(at: uptime, random: configuration.random())
      refreshDue = min(refreshDue, refreshPace.due)
    }
  }

  /// Ends the pause of ``run()``.
  @inline(never) func wake() {
    if let sleeper { sleeper.cancel() } else { isWoken = true }
  }

  @inline(never) private func pause(_ delay: TimeInterval) async {
    if isWoken {
      isWoken = false
      return
    }
    let clock = configuration.clock
    let task = Task { _ = try? await clock.sleep(seconds: delay) }
    sleeper = task
    await withTaskCancellationHandler {
      await task.value
    } onCancel: {
      task.cancel()
    }
    sleeper = nil
    isWoken = false
  }
}

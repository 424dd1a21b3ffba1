import Foundation

extension Receiptd {
  // MARK: Events

  /// Queues an event for the server's numbers. It is kept on disk, sent with others, and counted once. An event whose name or
  /// properties the server would refuse is dropped: 1 to 64 letters, digits, `_`, `-` and `.`, beginning with a letter, and 2 KiB
  /// of properties.
  public func track(_ event: String, _ properties: [String: EventValue] = [:]) {
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
    if let kept = try? configuration.queues.read(StoreKeys.installation) {
      return String(decoding: kept, as: UTF8.self)
    }
    let id = "installation-\(UUID().uuidString)"
    try? configuration.queues.write(Data(id.utf8), for: StoreKeys.installation)
    return id
  }

  private struct EventReport: Encodable {
    struct Event: Encodable {
      var id: UUID
      var name: String
      var at: Date
      var properties: [String: EventValue]
    }
    var bundleID: String
    var customerID: String
    var events: [Event]
  }

  private struct Accepted: Decodable {
    var accepted: Int
  }

  /// Sends one request with events.
  func sendEvents() async {
    await eventTurn.enter()
    await sendBatch()
    await eventTurn.leave()
  }

  private func sendBatch() async {
    let now = board.now
    events.dropOld(at: now)
    let batch = events.batch()
    guard let customer = batch.first?.customerID else {
      eventsSince = nil
      return
    }
    let report = EventReport(
      bundleID: configuration.bundleID, customerID: customer,
      // The device's clock may have been ahead when the event happened.
      events: batch.map { .init(id: $0.id, name: $0.name, at: min($0.at, now), properties: $0.properties) })
    do {
      let response = try await api.send(api.post(["events"], report, of: nil))
      _ = try API.read(Accepted.self, from: response)
      settle(batch)
      eventPace.succeed()
      serverAnswered()
    } catch let error as ReceiptdError where error.isFinal {
      settle(batch)
    } catch {
      eventPace.fail(
        error as? ReceiptdError ?? .offline("cancelled"), at: uptime, random: configuration.random(),
        first: Pace.background)
    }
  }

  private func settle(_ batch: [QueuedEvent]) {
    events.remove(batch)
    saveEvents()
    // A full queue leaves in several requests, a second or two apart.
    eventsSince =
      events.events.isEmpty ? nil : uptime - configuration.eventDelay + 1 + configuration.random()
  }

  // MARK: Running

  /// Does what is due until the task is cancelled: refreshes when the entitlement changes and at the refresh interval, sends
  /// purchases and events, and repeats what failed. Call it once, in a task that lives as long as the app.
  public func run() async {
    isRunning = true
    defer { isRunning = false }
    while !Task.isCancelled {
      let delay = await step()
      await pause(delay)
    }
  }

  /// Does what is due now.
  /// - Returns: the seconds until the next step.
  func step() async -> TimeInterval {
    load()
    if hasProofs, proofPace.due <= uptime { await sendProofs() }
    if customer != nil, refreshDue <= uptime { _ = try? await refresh() }
    if eventsDue <= uptime { await sendEvents() }
    return secondsUntilNextStep()
  }

  /// Notes the time and tells the listeners. Not a part of ``step()``: the compiler repeats what follows an `await` for each way to it.
  private func secondsUntilNextStep() -> TimeInterval {
    let clock = configuration.clock
    board.state.with { $0.time.note(clock) }
    saveTime()
    board.publish()

    var due = [uptime + 3600, eventsDue]
    if customer != nil { due.append(refreshDue) }
    if hasProofs {
      let items = proofs.filter { $0.customer == customer }.map { itemPaces[$0.id]?.due ?? 0 }
      due.append(max(proofPace.due, items.min() ?? 0))
    }
    // The end of offline use, which the listeners learn.
    if let end = board.state.with({ $0.held?.claims.exp }) {
      let left = end - board.now.timeIntervalSince1970
      if left > 0 { due.append(uptime + left) }
    }
    return max(0.1, (due.min() ?? 0) - uptime)
  }

  private var hasProofs: Bool { proofs.contains { $0.customer == customer } }

  private var eventsDue: TimeInterval {
    guard let eventsSince, !events.events.isEmpty else { return .infinity }
    return max(eventPace.due, eventsSince + configuration.eventDelay)
  }

  /// Plans the next refresh: a second after the entitlement changes, or at the interval. Many customers' entitlements may
  /// change at the same time, so each waits a little longer at random.
  func scheduleRefresh() {
    let random = configuration.random()
    var delay = configuration.refreshInterval * (0.8 + 0.4 * random)
    if let claims = board.state.with({ $0.held?.claims }), let end = claims.validUntil {
      let left = end - board.now.timeIntervalSince1970
      let spread = min(10, max(0, end - claims.iat) / 10)
      // A server that answers with an end in the past is not asked every second.
      delay = min(delay, left > 0 ? left + 1 + random * spread : 60)
    }
    refreshDue = uptime + delay
  }

  /// The server answers, so what waits for its return need not wait longer.
  func serverAnswered() {
    proofPace.relax(at: uptime, random: configuration.random())
    eventPace.relax(at: uptime, random: configuration.random())
    if refreshPace.failures > 0 {
      refreshPace.relax(at: uptime, random: configuration.random())
      refreshDue = min(refreshDue, refreshPace.due)
    }
  }

  /// Ends the pause of ``run()``.
  func wake() {
    if let sleeper { sleeper.cancel() } else { isWoken = true }
  }

  private func pause(_ delay: TimeInterval) async {
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

import Crypto
import FoundationEssentials
import HTTP
import Logging
import Postgres
import Subscriptions

/// Delivers what waits for one lane.
///
/// A row is claimed for a while rather than locked, so that no transaction waits for somebody else's server, and a
/// server that dies in the middle gives it back by dying. One customer's row is in one hand at a time,
/// and what is sent is read after it was claimed: a newer state is never overtaken by an older one. Before it is sent it
/// is written down under its change, of which receivers know a repetition.
struct LaneWorker: Sendable {
  let lane: OutboxLane
  let app: App
  let sender: any OutboxSender
  let pool: PostgresPool
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  /// For how long a change is tried before it is given up: over a long weekend.
  static let maximumAge: TimeInterval = 4 * 86_400
  /// How long a lane that is in trouble rests at most before it is tried again.
  static let longestRest: TimeInterval = 300
  /// What another server asks for beyond this is not believed.
  private static let longestWish: TimeInterval = 3_600
  /// More than the longest request, so that clocks of servers may differ by the rest.
  private static let claimMargin: TimeInterval = 60
  /// After a state has ended, and before what was not tried is tried: clocks differ a little.
  private static let moment: TimeInterval = 1

  /// Delivers what is due now, at most one batch of it.
  /// - Returns: how many were due.
  func runOnce() async throws -> Int {
    let instant = clock.now()
    let claim = UUID()
    let end = instant + sender.timeout + Self.claimMargin
    let rows = try await pool.query(
      DeliveryRows.claim(lane, by: claim, limit: sender.batchSize, at: instant, until: end))
    let claimed = try rows.map(DeliveryRows.decode)
    guard let first = claimed.first else { return 0 }
    let prepared = try await note(prepare(claimed, at: instant), by: claim, at: instant)
    let messages = prepared.compactMap { $0.isSent ? $0.message : nil }
    let (clock, timeout) = (clock, sender.timeout)
    let hasTime: @Sendable () -> Bool = { clock.now() + timeout < end }
    let delivery =
      messages.isEmpty || !hasTime()
      ? Delivery(outcomes: []) : await send(messages, hasTime: hasTime)
    try await settle(prepared, delivery, claim: claim, laneFailures: first.laneFailures)
    return claimed.count
  }

  /// Sends in a trace of its own: a state follows from many requests, and from the clock.
  private func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    let start = ContinuousClock.now
    let delivery = await TraceContext.$current.withValue(.new()) {
      let delivery = await sender.send(messages, hasTime: hasTime)
      logger.debug(
        "delivered",
        metadata: [
          "destination": "\(lane.destination.rawValue)", "bundleID": "\(lane.bundleID)",
          "messages": "\(messages.count)", "trouble": "\(delivery.trouble?.reason ?? "none")",
        ])
      return delivery
    }
    metrics.jobs.delivered(lane, delivery.outcomes, in: .now - start)
    return delivery
  }

  // MARK: Before

  /// A claimed row with what is to be sent.
  private struct Prepared {
    var row: DeliveryRows.Claimed
    /// `nil` where the row names nobody.
    var message: OutboxMessage?
    var digest: [UInt8]?

    /// Whether another change came between the claim and the reading.
    var isOvertaken = false

    /// Whether something else stands there, as far as is known.
    var isNews: Bool { digest != row.deliveredDigest }

    var isSent: Bool { isNews && !isOvertaken }
  }

  private func prepare(_ rows: [DeliveryRows.Claimed], at instant: Date) async throws -> [Prepared] {
    let customers = rows.map { Customer(id: $0.key, of: app) }
    let holdings = try await pool.holdings(
      users: customers.compactMap { $0?.userID }, devices: customers.compactMap { $0?.deviceID })
    return try zip(rows, customers).map { row, customer in
      guard let customer else { return Prepared(row: row) }
      let state = CustomerState(
        of: customer, in: app, holdings: holdings.holdings(of: customer, in: app), at: instant)
      return Prepared(
        row: row,
        message: OutboxMessage(
          id: row.id, change: row.change, changedAt: row.createdAt, attempts: row.attempts, state: state),
        digest: Array(SHA256.hash(data: try sender.content(of: state))))
    }
  }

  /// Writes down what is about to be sent.
  private func note(_ prepared: [Prepared], by claim: UUID, at instant: Date) async throws -> [Prepared] {
    let attempts = prepared.compactMap { item in
      item.isNews
        ? item.digest.map { DeliveryRows.Attempt(id: item.row.id, change: item.row.change, digest: $0) } : nil
    }
    guard !attempts.isEmpty else { return prepared }
    var noted: [Int64: (change: Int64, changedAt: Date)] = [:]
    for row in try await pool.query(DeliveryRows.note(attempts, by: claim, at: instant)) {
      noted[try row.decode(0)] = (try row.decode(1), try row.decode(2))
    }
    return prepared.map { item in
      guard item.isNews, item.message != nil else { return item }
      var item = item
      if let (change, changedAt) = noted[item.row.id] {
        item.row.change = change
        item.row.createdAt = changedAt
        item.message?.change = change
        item.message?.changedAt = changedAt
      } else {
        item.isOvertaken = true
      }
      return item
    }
  }

  // MARK: Afterwards

  private func settle(
    _ prepared: [Prepared], _ delivery: Delivery, claim: UUID, laneFailures: Int
  ) async throws {
    let instant = clock.now()
    let rest = delivery.trouble.map { self.rest(after: $0, failures: laneFailures) } ?? 0
    var outcomes = delivery.outcomes[...]
    let settlements = prepared.map { item in
      let outcome: DeliveryOutcome =
        if item.message == nil {
          .refused("the key names no customer of the app")
        } else if item.isOvertaken {
          .untried
        } else if item.isNews {
          outcomes.popFirst() ?? .untried
        } else {
          .delivered
        }
      return settlement(of: item, outcome, rest: rest, at: instant)
    }
    var queries = DeliveryRows.settle(settlements, by: claim, at: instant)
    switch delivery.trouble {
    case .unavailable(let reason, _):
      queries.append(LaneRows.pause(lane, until: instant + rest, because: reason))
    case .gone(let reason): queries.append(LaneRows.disable(lane, because: reason, at: instant))
    case nil: if isWellAgain(delivery, laneFailures) { queries.append(LaneRows.recover(lane)) }
    }
    tell(delivery, settlements, laneFailures: laneFailures)
    // Not cut short when the service stops: what was delivered would be sent again.
    let (pool, statements) = (pool, queries)
    _ = try await Task { try await pool.transaction(pipeline: statements) }.value
  }

  private func rest(after trouble: LaneTrouble, failures: Int) -> TimeInterval {
    let own = Backoff.delay(
      afterAttempts: failures, jitter: .random(in: 0...1), atMost: Self.longestRest)
    guard case .unavailable(_, let wish?) = trouble else { return own }
    return max(own, min(wish, Self.longestWish))
  }

  private func settlement(
    of item: Prepared, _ outcome: DeliveryOutcome, rest: TimeInterval, at instant: Date
  ) -> DeliveryRows.Settlement {
    let row = item.row
    var settlement = DeliveryRows.Settlement(id: row.id, change: row.change, nextAttemptAt: instant)
    switch outcome {
    case .delivered:
      settlement.isDone = true
      settlement.digest = item.digest
      settlement.countsAsAttempt = item.isNews
      settlement.nextAttemptAt =
        item.message?.state.entitlements.validUntil.map { $0 + Self.moment } ?? .distantFuture
    case .failed(let reason, let wish):
      let own = Backoff.delay(afterAttempts: row.attempts, jitter: .random(in: 0...1))
      settlement.nextAttemptAt = instant + max(own, min(wish ?? 0, Self.longestWish), rest)
      settlement.error = reason
      settlement.isDead = instant.timeIntervalSince(row.createdAt) > Self.maximumAge
    case .refused(let reason):
      settlement.isDead = true
      settlement.error = reason
    case .untried:
      settlement.countsAsAttempt = false
      settlement.digest = row.deliveredDigest
      settlement.nextAttemptAt = instant + max(rest, Self.moment)
    }
    return settlement
  }

  /// Whether a place that was in trouble has answered, be it that it refused a message.
  private func isWellAgain(_ delivery: Delivery, _ laneFailures: Int) -> Bool {
    laneFailures > 0 && delivery.trouble == nil && delivery.outcomes.contains { $0 != .untried }
  }

  private func tell(
    _ delivery: Delivery, _ settlements: [DeliveryRows.Settlement], laneFailures: Int
  ) {
    let place: Logger.Metadata = [
      "destination": "\(lane.destination.rawValue)", "bundleID": "\(lane.bundleID)",
    ]
    // Once for each time of trouble, not for each attempt.
    if let trouble = delivery.trouble, laneFailures == 0 || trouble.isGone {
      logger.warning(
        "a place that customers' states are written to is in trouble",
        metadata: place.merging(["reason": "\(trouble.reason)"]) { $1 })
    } else if isWellAgain(delivery, laneFailures) {
      logger.notice("a place that customers' states are written to is well again", metadata: place)
    }
    for settlement in settlements where settlement.isDead {
      logger.error(
        "a customer's state was given up; support can requeue it",
        metadata: place.merging([
          "outbox": "\(settlement.id)", "reason": "\(settlement.error ?? "too old")",
        ]) { $1 })
    }
  }
}

import Crypto
import Customers
import Foundation
import HTTP
import Logging
import Platform
import Postgres
import Requests
import Subscriptions
import Work

/// Delivers the rows of one destination.
///
/// A row is claimed for a limited time and not locked, so no transaction is open during a request, and the claim of a
/// server that dies expires. One worker has a customer's row at a time, and it reads the state after the claim: an
/// older state never overwrites a newer one. The worker records the content's digest under the change number before it
/// sends the content, because receivers recognize repetitions by that number.
struct DeliveryWorker: Sendable {
  let destination: OutboxDestination
  let app: App
  let sender: any OutboxSender
  let metrics: DeliveryMetrics
  let work: WorkContext

  private var pool: PostgresPool { work.pool }
  private var clock: ServiceClock { work.clock }
  private var logger: Logger { work.logger }

  /// For how long a change is retried: over a long weekend.
  static let maximumAge: TimeInterval = 4 * 86_400
  /// The longest pause of a destination that failed, unless it asks for a longer one.
  static let maximumPause: TimeInterval = 300
  private static let backoff = Backoff(base: .seconds(2), maximum: .seconds(maximumPause), jitter: 0.5)
  /// The time for which a claim outlasts the longest request. The clocks of two servers may differ by this.
  private static let claimMargin: TimeInterval = 60
  /// A small delay that covers a difference of clocks.
  private static let clockMargin: TimeInterval = 1

  /// Delivers at most one batch of the rows that are due.
  /// - Returns: the number of rows that were due.
  func runOnce() async throws -> Int {
    let instant = clock.now()
    let lease = WorkLease(at: instant, for: sender.timeout + Self.claimMargin)
    let erasuresOnly = destination.kind == .webhook && !app.receivesStates(destination)
    let rows = try await pool.query(
      DeliveryRows.claim(destination, erasuresOnly: erasuresOnly, lease, limit: sender.batchSize))
    let claimed = try rows.map(DeliveryRows.Claimed.init)
    guard let first = claimed.first else { return 0 }
    let prepared: [Prepared]
    do {
      prepared = try await record(prepare(claimed, at: instant), by: lease.holder, at: instant)
    } catch  where Task.isCancelled || error is CancellationError {
      await giveBack(claimed, lease)
      throw error
    }
    let messages = prepared.compactMap { $0.isSent ? $0.message : nil }
    let (clock, timeout) = (clock, sender.timeout)
    let hasTime: @Sendable () -> Bool = { clock.now() + timeout < lease.end }
    let delivery =
      messages.isEmpty || !hasTime()
      ? Delivery(outcomes: []) : await send(messages, hasTime: hasTime)
    try await release(
      prepared, delivery, claim: lease.holder, destinationFailures: first.destinationFailures)
    return claimed.count
  }

  /// Makes claimed rows due again when the server stops before it sends them. If this statement fails, another server
  /// claims the rows after the lease.
  private func giveBack(_ rows: [DeliveryRows.Claimed], _ lease: WorkLease) async {
    let pool = pool
    let queries = rows.map { DeliveryRows.table.giveBack($0.id, of: lease) }
    await Task { _ = try? await pool.transaction(pipeline: queries) }.value
    for _ in rows { work.metrics.attempted(destination.kind.work, .givenBack) }
  }

  /// Sends in a new trace: a state follows from many requests, and from time.
  private func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    let start = ContinuousClock.now
    let delivery = await TraceContext.$current.withValue(.new()) {
      let delivery = await sender.send(messages, hasTime: hasTime)
      logger.debug(
        "delivered",
        metadata: [
          "destination": "\(destination.kind.rawValue)", "bundleID": "\(destination.bundleID)",
          "messages": "\(messages.count)", "problem": "\(delivery.problem?.reason ?? "none")",
        ])
      return delivery
    }
    metrics.delivered(destination, delivery.outcomes, in: .now - start)
    return delivery
  }

  // MARK: Before a delivery

  /// A claimed row with its message.
  private struct Prepared {
    var row: DeliveryRows.Claimed
    /// `nil` if the row names nothing that exists, or cannot be read.
    var message: OutboxMessage?
    /// Why it cannot be read.
    var fault: String?
    var digest: [UInt8]?

    /// Whether another change came between the claim and the read of the state.
    var isOvertaken = false

    /// Whether the destination has another content, as far as is known.
    var isNews: Bool { digest != row.deliveredDigest }

    var isSent: Bool { isNews && !isOvertaken }
  }

  /// Reads the contents of all rows at once. Where that fails for another reason than an outage, each row is read
  /// alone, so that one that cannot be read stops no others.
  private func prepare(_ rows: [DeliveryRows.Claimed], at instant: Date) async throws -> [Prepared] {
    do {
      return try await read(rows, at: instant)
    } catch  where !concernsAll(error) {
      var prepared: [Prepared] = []
      for row in rows {
        do {
          prepared += try await read([row], at: instant)
        } catch  where !concernsAll(error) {
          logger.error(
            "a delivery cannot be read",
            metadata: [
              "destination": "\(destination.kind.rawValue)", "bundleID": "\(destination.bundleID)",
              "outbox": "\(row.id)", "reason": "\(error)",
            ])
          prepared.append(
            Prepared(row: row, fault: "receiptd cannot read what is to be sent; its log says why"))
        }
      }
      return prepared
    }
  }

  private func concernsAll(_ error: any Error) -> Bool {
    Task.isCancelled || error is CancellationError
      || (error as? PostgresError)?.isAnsweredUnavailable ?? false
  }

  private func read(_ rows: [DeliveryRows.Claimed], at instant: Date) async throws -> [Prepared] {
    let contents = try await OutboxReader(app: app, pool: pool)
      .contents(of: rows, for: destination.kind, at: instant)
    return try zip(rows, contents).map { row, content in
      guard let content else { return Prepared(row: row) }
      return Prepared(
        row: row,
        message: OutboxMessage(
          id: row.id, change: row.change, changedAt: row.createdAt, attempts: row.attempts, content: content),
        digest: Array(SHA256.hash(data: try sender.bytes(of: content))))
    }
  }

  /// Records the contents that are about to be sent.
  private func record(_ prepared: [Prepared], by claim: UUID, at instant: Date) async throws -> [Prepared] {
    let attempts = prepared.compactMap { item in
      item.isNews
        ? item.digest.map { DeliveryRows.Attempt(id: item.row.id, change: item.row.change, digest: $0) } : nil
    }
    guard !attempts.isEmpty else { return prepared }
    var recorded: [Int64: (change: Int64, changedAt: Date)] = [:]
    for row in try await pool.query(DeliveryRows.record(attempts, by: claim, at: instant)) {
      let change = try DeliveryRows.RecordedChange(row)
      recorded[change.id] = (change.change, change.createdAt)
    }
    return prepared.map { item in
      guard item.isNews, item.message != nil else { return item }
      var item = item
      if let (change, changedAt) = recorded[item.row.id] {
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

  // MARK: After a delivery

  private func release(
    _ prepared: [Prepared], _ delivery: Delivery, claim: UUID, destinationFailures: Int
  ) async throws {
    let instant = clock.now()
    let pause = delivery.problem.map { self.pause(after: $0, failures: destinationFailures) } ?? 0
    var outcomes = delivery.outcomes[...]
    let updates = prepared.map { item in
      let outcome: DeliveryOutcome =
        if let fault = item.fault {
          .failed(fault)
        } else if item.message == nil {
          .refused(OutboxReader.missing(destination.kind))
        } else if item.isOvertaken {
          .untried
        } else if item.isNews {
          outcomes.popFirst() ?? .untried
        } else {
          .delivered
        }
      return update(of: item, outcome, pause: pause, at: instant)
    }
    var queries = DeliveryRows.release(updates, by: claim, at: instant)
    if destination.kind.deletesDelivered { queries.append(DeliveryRows.deleteDelivered(updates)) }
    switch delivery.problem {
    case .unavailable(let reason, _):
      queries.append(DestinationRows.pause(destination, until: instant + pause, because: reason))
    case .gone(let reason): queries.append(DestinationRows.disable(destination, because: reason, at: instant))
    case nil:
      if hasRecovered(delivery, destinationFailures) { queries.append(DestinationRows.recover(destination)) }
    }
    log(delivery, updates, destinationFailures: destinationFailures)
    // In a task of its own, which a stop of the service does not cancel: otherwise delivered rows would be sent again.
    let (pool, statements) = (pool, queries)
    _ = try await Task { try await pool.transaction(pipeline: statements) }.value
    for update in updates { work.metrics.attempted(destination.kind.work, update.result) }
  }

  private func pause(after problem: DestinationProblem, failures: Int) -> TimeInterval {
    let retryAfter: TimeInterval? = if case .unavailable(_, let after) = problem { after } else { nil }
    return Self.backoff.seconds(afterFailures: failures + 1, retryAfter: retryAfter)
  }

  private func update(
    of item: Prepared, _ outcome: DeliveryOutcome, pause: TimeInterval, at instant: Date
  ) -> DeliveryRows.RowUpdate {
    let row = item.row
    var update = DeliveryRows.RowUpdate(id: row.id, change: row.change, nextAttemptAt: instant)
    switch outcome {
    case .delivered:
      update.isDone = true
      update.digest = item.digest
      update.countsAsAttempt = item.isNews
      update.nextAttemptAt =
        item.message?.content.changesAt.map { $0 + Self.clockMargin } ?? .distantFuture
    case .failed(let reason, let retryAfter):
      let wait = Backoff.delivery.seconds(afterFailures: row.attempts + 1, retryAfter: retryAfter)
      update.nextAttemptAt = instant + max(wait, pause)
      update.error = reason
      update.isDead = instant.timeIntervalSince(row.createdAt) > Self.maximumAge
    case .refused(let reason):
      update.isDead = true
      update.error = reason
    case .untried:
      update.countsAsAttempt = false
      update.digest = row.deliveredDigest
      update.nextAttemptAt = instant + max(pause, Self.clockMargin)
    }
    return update
  }

  /// Whether a destination that failed before has answered, also with a refusal of a message.
  private func hasRecovered(_ delivery: Delivery, _ destinationFailures: Int) -> Bool {
    destinationFailures > 0 && delivery.problem == nil && delivery.outcomes.contains { $0 != .untried }
  }

  private func log(
    _ delivery: Delivery, _ updates: [DeliveryRows.RowUpdate], destinationFailures: Int
  ) {
    let metadata: Logger.Metadata = [
      "destination": "\(destination.kind.rawValue)", "bundleID": "\(destination.bundleID)",
    ]
    // Once for each outage, not for each attempt.
    if let problem = delivery.problem, destinationFailures == 0 || problem.isGone {
      logger.warning(
        "an outbox destination does not take deliveries",
        metadata: metadata.merging(["reason": "\(problem.reason)"]) { $1 })
    } else if hasRecovered(delivery, destinationFailures) {
      logger.notice("an outbox destination takes deliveries again", metadata: metadata)
    }
    for update in updates where update.isDead {
      logger.error(
        "a delivery was given up; support can requeue it",
        metadata: metadata.merging([
          "outbox": "\(update.id)", "reason": "\(update.error ?? "too old")",
        ]) { $1 })
    }
  }
}

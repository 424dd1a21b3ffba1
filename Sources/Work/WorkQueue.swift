import CoreMetrics
import Foundation
import Logging
import Platform
import Postgres
import PrometheusText

/// The kinds of work in the queues, over all tables.
package enum WorkKind: String, Sendable, CaseIterable, LabelValue {
  case cloudkit, webhook, event, notification
  /// The premium status of a user that the app's own table refused.
  case profiles
  case consumption
  case accountToken = "account_token"
  case renewalExtension = "renewal_extension"
  /// What an old build of a client wrote to the app's own table.
  case clientClaim = "client_claim"
  case oldProof = "old_proof"
}

/// What an attempt came to, with the statements that settle the row.
package struct WorkOutcome: Sendable {
  /// The values of the label `outcome`.
  package enum Result: String, Sendable, CaseIterable, LabelValue {
    case done
    /// It failed and is tried again.
    case retry
    /// It waits for something else than another attempt, such as a consent or a key.
    case waits
    case givenUp = "given_up"
    /// No work was done: the server stopped, or an outage concerns all rows.
    case givenBack = "given_back"
  }

  package var result: Result
  /// Run in one transaction.
  package var statements: [Query]
  /// Called after their commit.
  var afterwards: @Sendable () -> Void

  /// - Parameter afterwards: called after the commit, to count and to log.
  package init(
    _ result: Result, _ statements: [Query], afterwards: @escaping @Sendable () -> Void = {}
  ) {
    self.result = result
    self.statements = statements
    self.afterwards = afterwards
  }
}

/// The counter of attempts of all kinds of work.
package struct WorkMetrics: Sendable {
  private let attempts: MetricFamily<Counter, WorkKind, WorkOutcome.Result>

  package init(_ registry: PrometheusRegistry) {
    attempts = registry.counters(
      "receiptd_work_attempts_total", "Attempts of queued work, by kind and outcome.", "kind", "outcome")
  }

  /// Counts an attempt.
  package func attempted(_ kind: WorkKind, _ result: WorkOutcome.Result) {
    attempts[kind, result].increment()
  }
}

/// What every queue works with.
package struct WorkContext: Sendable {
  package let pool: PostgresPool
  package let clock: ServiceClock
  package let logger: Logger
  package let metrics: WorkMetrics

  package init(pool: PostgresPool, clock: ServiceClock, logger: Logger, metrics: WorkMetrics) {
    self.pool = pool
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
  }
}

/// Claims the due rows of a table in batches and has each worked on, side by side.
///
/// No transaction is open during an attempt. One that fails does not stop the others. When the server stops, the rows
/// whose attempt was cut off are given back.
package struct WorkQueue<Item: Sendable>: Sendable {
  package let context: WorkContext
  package let table: WorkTable
  /// The most rows of a claim.
  package let batch: Int
  /// How long a claim holds its rows, in seconds.
  package let lease: TimeInterval
  private let lockTimeout: Duration?
  private let kind: @Sendable (Item) -> WorkKind
  private let giveBack: @Sendable (Item, WorkLease) -> Query
  private let read: @Sendable (Row) throws -> Item?
  private let endsRun: @Sendable (any Error) -> Bool

  /// - Parameters:
  ///   - lease: longer than the longest attempt, in seconds.
  ///   - lockTimeout: how long a settling statement waits for a row that requests lock, too.
  ///   - key: the key of an item's row.
  ///   - endsRun: whether an error of an attempt concerns all rows, as an outage does.
  ///   - read: an item from a claimed row; `nil` for one of a later build.
  package init<Key: PostgresEncodable & SendableMetatype>(
    _ table: WorkTable, _ context: WorkContext, batch: Int, lease: TimeInterval, lockTimeout: Duration? = nil,
    kind: @escaping @Sendable (Item) -> WorkKind,
    key: @escaping @Sendable (Item) -> Key,
    endsRun: @escaping @Sendable (any Error) -> Bool,
    read: @escaping @Sendable (Row) throws -> Item?
  ) {
    self.table = table
    self.context = context
    self.batch = batch
    self.lease = lease
    self.lockTimeout = lockTimeout
    self.kind = kind
    giveBack = { table.giveBack(key($0), of: $1) }
    self.endsRun = endsRun
    self.read = read
  }

  /// Works on all rows that are due, batch after batch.
  /// - Returns: the number of rows that were due.
  /// - Throws: as ``run(_:attempt:)``.
  @discardableResult
  package func runAll(
    _ claim: @Sendable (WorkLease, _ limit: Int) -> Query,
    attempt: @escaping @Sendable (Item, WorkLease) async throws -> WorkOutcome
  ) async throws -> Int {
    var total = 0
    while true {
      let count = try await run(claim, attempt: attempt)
      total += count
      if count < batch { return total }
    }
  }

  /// Works on one batch.
  ///
  /// - Parameter claim: the statement that leases at most `limit` rows.
  /// - Returns: the number of rows that were due.
  /// - Throws: the first error that concerns all rows, after the batch; `CancellationError` when the server stops.
  @discardableResult
  package func run(
    _ claim: @Sendable (WorkLease, _ limit: Int) -> Query,
    attempt: @escaping @Sendable (Item, WorkLease) async throws -> WorkOutcome
  ) async throws -> Int {
    let lease = WorkLease(at: context.clock.now(), for: lease)
    let rows = try await context.pool.query(claim(lease, batch))
    let items = rows.compactMap(item)
    let outage = await withTaskGroup(of: (any Error)?.self) { group in
      for item in items { group.addTask { await work(on: item, lease, attempt) } }
      return await group.reduce(nil) { $0 ?? $1 }
    }
    if let outage { throw outage }
    return rows.count
  }

  /// One row that cannot be read does not stop the others.
  private func item(_ row: Row) -> Item? {
    do {
      return try read(row)
    } catch {
      context.logger.error(
        "a row of a queue cannot be read, and is tried again when its lease ends",
        metadata: ["table": "\(table.name)", "reason": "\(error)"])
      return nil
    }
  }

  /// - Returns: an error that concerns all rows.
  private func work(
    on item: Item, _ lease: WorkLease,
    _ attempt: @Sendable (Item, WorkLease) async throws -> WorkOutcome
  ) async -> (any Error)? {
    do {
      try await settle(item, try await attempt(item, lease))
      return nil
    } catch  where Task.isCancelled || error is CancellationError || endsRun(error) {
      await giveBack(item, lease)
      return error
    } catch {
      context.logger.error(
        "queued work failed, and is tried again when its lease ends",
        metadata: ["kind": "\(kind(item).rawValue)", "reason": "\(error)"])
      return nil
    }
  }

  /// Gives a row back on which no work was done. Where that fails, the lease ends.
  package func giveBack(_ item: Item, _ lease: WorkLease) async {
    try? await settle(item, WorkOutcome(.givenBack, [giveBack(item, lease)]))
  }

  /// Settles a row, in a task that a stop of the server does not cancel: otherwise the work would be done again.
  package func settle(_ item: Item, _ outcome: WorkOutcome) async throws {
    if !outcome.statements.isEmpty {
      let (pool, statements) = (
        context.pool, (lockTimeout.map { [AdvisoryLock.limit($0)] } ?? []) + outcome.statements
      )
      _ = try await Task { try await pool.transaction(pipeline: statements) }.value
    }
    context.metrics.attempted(kind(item), outcome.result)
    outcome.afterwards()
  }
}

extension Backoff {
  /// The delays between attempts to deliver a row: two seconds, doubling, at most an hour. Half of each is random.
  package static let delivery = Backoff(base: .seconds(2), maximum: .seconds(3_600), jitter: 0.5)

  /// The longest `Retry-After` that is obeyed.
  private static let maximumRetryAfter: TimeInterval = 3_600

  /// The delay in seconds after this number of consecutive failures, at least 1.
  /// - Parameter retryAfter: the least delay that the other side asked for.
  package func seconds(
    afterFailures failures: Int, retryAfter: TimeInterval? = nil, random: Double = .random(in: 0...1)
  ) -> TimeInterval {
    let seconds = delay(afterFailures: failures, random: random) / .seconds(1)
    return max(seconds, min(retryAfter ?? 0, Self.maximumRetryAfter))
  }
}

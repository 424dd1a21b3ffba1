import Postgres
import Requests
import Work

/// Transactions of requests under customers' and purchases' advisory locks.
///
/// A client or a person of support can send any number of requests of one customer at once, and each of them needs the
/// same lock. So a process runs one of these requests at a time; the others wait in memory (``Turns``).
///
/// The locks and the rows of many customers may be held at once. So a transaction first waits for a few milliseconds
/// for each. If that is not enough, it ends, and the request waits for a place, which it keeps until the end of a
/// second transaction: a third of the pool's connections at most wait for longer. The ledger has no such queue: it uses
/// ``CommitQueue/maximumWorkers`` connections and one more at most.
package final class CustomerTransactions: Sendable {
  /// The most requests that wait for one key.
  package static let maximumWaiting = 128
  /// How long a request waits for its turn. Some turns are long: the erasure of a customer may scan large tables.
  package static let patience = Duration.seconds(5)

  private enum Place: Hashable, Sendable { case any }

  private let pool: PostgresPool
  private let turns = Turns<Int64>(
    maximumWaiting: CustomerTransactions.maximumWaiting, patience: CustomerTransactions.patience)
  private let places: Turns<Place>

  package init(pool: PostgresPool) {
    self.pool = pool
    places = Turns(
      atOnce: Self.places(in: pool), maximumWaiting: .max, patience: LockTimeout.alone)
  }

  /// The most connections of a pool that wait for held locks.
  package static func places(in pool: PostgresPool) -> Int { max(1, pool.status.maximum / 3) }

  /// The number of requests that wait for a turn or a place.
  package var waitingCount: Int { turns.waitingCount + places.waitingCount }

  /// Runs a transaction that locks these names of customers and of their Apple Accounts, and before them these
  /// purchases, then sends `queries` in the same round trip, and gives `body` their results.
  ///
  /// `body` runs a second time if the first transaction did not get a lock or a row in time. A second transaction that does not get it
  /// fails with 55P03. So do the requests that wait for its turn, if it locked one name alone: they need the same lock.
  ///
  /// - Parameter isDryRun: whether to roll back at the end and still return what `body` returned.
  /// - Throws: 429 `rate_limited` where too many requests wait, 503 `database_unavailable` where the turn does not come
  ///   in time; errors of `body` and of the database.
  package nonisolated(nonsending) func run<R>(
    locking names: Set<String>, purchases: Set<String> = [], isDryRun: Bool = false, _ queries: [Query] = [],
    _ body: nonisolated(nonsending) (PostgresConnection, ArraySlice<Rows>) async throws -> R
  ) async throws -> R {
    // In ascending order, as the locks are taken.
    let keys = AdvisoryLock.keys(.purchase, purchases) + AdvisoryLock.keys(.customer, names)
    var taken: [Int64] = []
    do {
      for key in keys {
        try await turns.take(key)
        taken.append(key)
      }
      try Task.checkCancellation()
      let result = try await runInTurn(
        locking: names, purchases: purchases, isDryRun: isDryRun, queries, body)
      endTurns(taken)
      return result
    } catch {
      // Of several locks the error does not tell which one another transaction holds.
      endTurns(taken, keys.count > 1 && (error as? PostgresError)?.isLockNotGranted == true ? nil : error)
      switch error {
      case is TooManyWaiting: throw ServiceError.tooManyOfOneCustomer
      case is TurnTimeout: throw ServiceError.databaseUnavailable
      default: throw error
      }
    }
  }

  private nonisolated(nonsending) func runInTurn<R>(
    locking names: Set<String>, purchases: Set<String>, isDryRun: Bool, _ queries: [Query],
    _ body: nonisolated(nonsending) (PostgresConnection, ArraySlice<Rows>) async throws -> R
  ) async throws -> R {
    func locks(_ timeout: Duration) -> [Query] {
      [(AdvisoryLock.Kind.purchase, purchases), (.customer, names)].filter { !$0.1.isEmpty }.map {
        AdvisoryLock.acquire($0.0, $0.1, lockTimeout: timeout)
      }
    }
    do {
      return try await attempt(locks(LockTimeout.probe), isDryRun: isDryRun, queries, body)
    } catch let refusal as PostgresError where refusal.isLockNotGranted {
      do {
        try await places.take(.any)
      } catch {
        throw refusal
      }
      defer { places.end(.any) }
      return try await attempt(locks(LockTimeout.alone), isDryRun: isDryRun, queries, body)
    }
  }

  private nonisolated(nonsending) func attempt<R>(
    _ locks: [Query], isDryRun: Bool, _ queries: [Query],
    _ body: nonisolated(nonsending) (PostgresConnection, ArraySlice<Rows>) async throws -> R
  ) async throws -> R {
    try await pool.withTransaction(isDryRun: isDryRun) { connection in
      let answers = try await connection.pipeline(locks + queries)
      return try await body(connection, answers.dropFirst(locks.count))
    }
  }

  /// - Parameter error: of the transaction. If it is about the lock or the database, the waiting requests get it too.
  private func endTurns(_ keys: [Int64], _ error: (any Error)? = nil) {
    let failure = (error as? PostgresError).flatMap { $0.isAnsweredUnavailable ? $0 : nil }
    for key in keys { turns.end(key, failure) }
  }
}

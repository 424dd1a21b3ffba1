import DequeModule
import Postgres
import Requests
import Synchronization
import Work

/// Transactions of client routes under a customer's advisory lock.
///
/// A client can send any number of requests of one customer at once, and each of them needs the same lock. So a process runs
/// one of these requests at a time. Only that request holds a connection and waits for the lock in the database; the others
/// wait in a queue in memory. The ledger has no such queue: it uses ``CommitQueue/maximumWorkers`` connections and one more at most.
package final class CustomerTransactions: Sendable {
  private typealias Waiting = Deque<CheckedContinuation<Void, any Error>>

  /// The most requests that wait for one key.
  package static let maximumWaiting = 128

  private let pool: PostgresPool
  /// The keys of running requests, each with the requests that wait for the same key.
  private let turns = Mutex<[Int64: Waiting]>([:])

  package init(pool: PostgresPool) {
    self.pool = pool
  }

  /// Runs a transaction that locks these names of customers and of their Apple Accounts, then sends `queries` in the same
  /// round trip, and gives `body` their results.
  ///
  /// A transaction that does not get a lock in time fails with 55P03, and so do the requests that wait for its turn: they
  /// need the same lock.
  ///
  /// - Throws: 429 `rate_limited` where too many requests wait; errors of `body` and of the database.
  package nonisolated(nonsending) func run<R>(
    locking names: Set<String>, _ queries: [Query],
    _ body: nonisolated(nonsending) (PostgresConnection, ArraySlice<Rows>) async throws -> R
  ) async throws -> R {
    let lock = AdvisoryLock.acquire(.customer, names, lockTimeout: LockTimeout.alone)
    var taken: [Int64] = []
    do {
      // In ascending order, as the locks are taken.
      for key in AdvisoryLock.keys(.customer, names) {
        try await takeTurn(key)
        taken.append(key)
      }
      try Task.checkCancellation()
      let result = try await pool.withTransaction { connection in
        let answers = try await connection.pipeline([lock] + queries)
        return try await body(connection, answers.dropFirst())
      }
      endTurns(taken)
      return result
    } catch {
      endTurns(taken, error)
      throw error
    }
  }

  private nonisolated(nonsending) func takeTurn(_ key: Int64) async throws {
    try await withCheckedThrowingContinuation { continuation in
      let result: Result<Void, any Error>? = turns.withLock { turns in
        guard let waiting = turns[key] else {
          turns[key] = Waiting()
          return .success(())
        }
        guard waiting.count < Self.maximumWaiting else {
          return .failure(ServiceError.tooManyOfOneCustomer)
        }
        turns[key]?.append(continuation)
        return nil
      }
      if let result { continuation.resume(with: result) }
    }
  }

  /// - Parameter error: of the transaction. If it is about the lock or the database, the waiting requests get it too.
  private func endTurns(_ keys: [Int64], _ error: (any Error)? = nil) {
    let failure = (error as? PostgresError).flatMap { $0.isAnsweredUnavailable ? $0 : nil }
    for key in keys {
      let next = turns.withLock { turns in
        if failure == nil, let first = turns[key]?.popFirst() { return [first] as Waiting }
        return turns.removeValue(forKey: key) ?? []
      }
      for continuation in next {
        if let failure { continuation.resume(throwing: failure) } else { continuation.resume() }
      }
    }
  }
}

import Foundation
import Logging
import Postgres
import TestDatabase
import Testing

@testable import Ledger
@testable import ReceiptService

/// A ledger with one connection, which the test holds until all entries of a batch wait for it.
struct SharedCommit {
  let ledger: LedgerWriter
  private let pool: PostgresPool

  /// Runs `body` with a ledger beside the harness's own, on the same database.
  ///
  /// - Parameter timeout: of waiting entries. With the one given here only the end of the running commit starts the
  ///   next one, however slow the machine is.
  static func with<R>(
    _ harness: Harness, connections: Int = 1, timeout: Duration = .seconds(600),
    _ body: (SharedCommit) async throws -> R
  ) async throws -> R {
    try await TestDatabase(uri: try #require(harness.environment["DATABASE_URL"])).withPool {
      $0.maximumConnections = connections
      $0.acquireTimeout = .seconds(120)
    } _: { pool in
      let notifications = harness.service.notifications
      let ledger = LedgerWriter(
        pool: pool, recentNotifications: RecentNotifications(), catalog: notifications.catalog,
        effects: notifications.ledger.effects,
        clock: harness.clock.service, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() },
        metrics: notifications.metrics, queue: CommitQueue(timeout: timeout))
      return try await body(SharedCommit(ledger: ledger, pool: pool))
    }
  }

  /// Records `first` in a transaction of its own, and all of `entries`, which arrive meanwhile, in the next one.
  ///
  /// - Parameter record: records the entry with this index, and the first one with the index nil.
  /// - Precondition: `entries` has fewer than ``CommitQueue/entriesPerWorker``.
  func record(
    _ entries: [LedgerEntry], after first: LedgerEntry,
    _ record: @escaping @Sendable (Int?, LedgerEntry) async throws -> Void
  ) async throws {
    precondition(entries.count < CommitQueue<LedgerWriter.Waiting>.entriesPerWorker)
    try await withThrowingTaskGroup { group in
      try await pool.withConnection { _ in
        group.addTask { try await record(nil, first) }
        while pool.status.waiting == 0 { try await Task.sleep(for: .milliseconds(1)) }
        for (index, entry) in entries.enumerated() { group.addTask { try await record(index, entry) } }
        while ledger.waitingCount < entries.count { try await Task.sleep(for: .milliseconds(1)) }
      }
      try await group.waitForAll()
    }
  }
}

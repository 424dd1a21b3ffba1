import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// A background job that writes profiles and queues webhook events when a grant begins or ends. (Responses read the grants
/// themselves.)
///
/// Any number of servers may run it: each customer is locked, and a customer that one server has written is not due for
/// the next. A grant that began and ended while no server ran is due once.
struct GrantSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let statusWriter: CustomerStatusWriter
  let clock: ServiceClock

  private static let batch = 128
  /// Bounds a run, so that a large backfill does not delay the other jobs.
  private static let maximumPerRun = 1_024

  /// Writes the due customers, up to the maximum of one run.
  /// - Returns: the number of customers written.
  func run() async throws -> Int {
    var count = 0
    var seen: Set<GrantRows.Due> = []
    while count < Self.maximumPerRun {
      let instant = clock.now()
      let rows = try await pool.query(
        GrantRows.due(in: catalog.apps.map(\.bundleID), at: instant, limit: Self.batch))
      let fresh = try rows.compactMap(GrantRows.Due.init).filter { seen.insert($0).inserted }
      guard !fresh.isEmpty else { return count }
      for due in fresh where try await tryFollowing(due, at: instant) { count += 1 }
    }
    return count
  }

  /// An unreadable row fails this customer only; the sweep goes on.
  private func tryFollowing(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    do {
      return try await follow(due, at: instant)
    } catch let error as UnreadableRow {
      statusWriter.logger.error("a customer's row cannot be read", metadata: ["column": "\(error.column)"])
      return false
    }
  }

  private func follow(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    guard let app = catalog[due.bundleID] else { return false }
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([due.customer]), GrantRows.follow(due, under: app, at: instant),
      ])
      guard !answers[1].isEmpty else { return false }
      try await statusWriter.write([due.customer], of: due.bundleID, at: instant, on: connection)
      return true
    }
  }
}

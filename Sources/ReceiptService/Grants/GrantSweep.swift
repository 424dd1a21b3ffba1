import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Brings profiles up to date when a grant begins or ends. Answers read the grants themselves and are right at every
/// instant; what others read has to be written anew.
///
/// Any number of servers may sweep: each customer is taken under the customer's lock, and what one has followed is not
/// due for the next. A grant that began and ended while no server ran is due once.
struct GrantSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let followUp: CustomerFollowUp
  let clock: ServiceClock

  private static let batch = 128
  /// Whatever else is due waits for the end of a turn: not for all grants of a large award.
  private static let customersInATurn = 1_024

  /// Follows what is due, or as much of it as one turn may have.
  /// - Returns: how many customers were due and followed here.
  func run() async throws -> Int {
    var count = 0
    var seen: Set<GrantRows.Due> = []
    while count < Self.customersInATurn {
      let instant = clock.now()
      let rows = try await pool.query(
        GrantRows.due(in: catalog.apps.map(\.bundleID), at: instant, limit: Self.batch))
      let fresh = try rows.compactMap(GrantRows.decodeDue).filter { seen.insert($0).inserted }
      guard !fresh.isEmpty else { return count }
      for due in fresh where try await tryFollowing(due, at: instant) { count += 1 }
    }
    return count
  }

  /// A row that cannot be read is this customer's trouble alone: those who wait behind must get their turn.
  private func tryFollowing(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    do {
      return try await follow(due, at: instant)
    } catch let error as UnreadableRow {
      followUp.logger.error("a row cannot be read", metadata: ["column": "\(error.column)"])
      return false
    }
  }

  private func follow(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    guard let app = catalog[due.bundleID] else { return false }
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([due.customer]), GrantRows.follow(due, under: app, at: instant),
      ])
      guard !answers[1].isEmpty else { return false }
      try await followUp.write([due.customer], of: due.bundleID, at: instant, on: connection)
      return true
    }
  }
}

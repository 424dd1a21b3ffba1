import FoundationEssentials
import Logging
import Postgres

/// Makes the months ahead of tables that are divided into them, and forgets what is older than the settings say. Any
/// number of servers may do so: of two at once, one finds nothing to do.
struct MonthsJob: Sendable {
  let pool: PostgresPool
  let retention: Retention
  let logger: Logger
  let metrics: ServiceMetrics

  /// Months are made three ahead, so that days without a turn do no harm.
  private static let pause = Duration.seconds(6 * 3_600)
  /// What somebody else's lock was in the way of is soon tried again.
  private static let pauseAfterFailure = Duration.seconds(600)
  /// One step deletes some thousand rows; of a cold disk it may take longer than a query of a request may.
  private static let patience = Duration.seconds(60)

  /// Works until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      let isMade = await turn("months") { try await makeMonths() }
      let isForgotten = await turn("retention") { try await forget() }
      let pause = isMade && isForgotten ? Self.pause : Self.pauseAfterFailure
      try? await Task.sleep(for: pause * Double.random(in: 0.75...1.25))
    }
  }

  private func turn(_ what: String, _ work: () async throws -> Int) async -> Bool {
    do {
      metrics.jobs.swept(what, rows: try await work())
      return true
    } catch {
      if Task.isCancelled { return false }
      metrics.jobs.swept(what, rows: nil)
      logger.warning("a turn was put off", metadata: ["of": "\(what)", "reason": "\(error)"])
      return false
    }
  }

  /// Makes the months that are missing.
  /// - Returns: how many.
  @discardableResult
  func makeMonths() async throws -> Int {
    let made = try await pool.withConnection { connection in
      try await connection.query(MonthRows.make, timeout: Self.patience)
    }
    for row in made {
      let name = try row.decode(0, as: String.self)
      logger.notice("made a month", metadata: ["table": "\(name)"])
    }
    return made.count
  }

  /// Forgets what is old enough.
  /// - Returns: how many rows were deleted one by one; those of months that were dropped are not counted.
  @discardableResult
  func forget() async throws -> Int {
    var deleted = 0
    for table in MonthlyTable.allCases {
      let months = retention[table]
      // Notifications of apps that are not configured go whatever the settings say.
      guard months != nil || table == .notifications else { continue }
      deleted += try await forget(table, olderThan: months)
    }
    return deleted
  }

  private func forget(_ table: MonthlyTable, olderThan months: Int?) async throws -> Int {
    let clock = ContinuousClock()
    var deleted = 0
    while !Task.isCancelled {
      let start = clock.now
      let step = try await pool.withConnection { connection in
        try MonthRows.decodeForgotten(
          await connection.query(MonthRows.forget(table, months: months), timeout: Self.patience)[0])
      }
      deleted += step.deleted
      if let dropped = step.dropped { logger.notice("dropped a month", metadata: ["table": "\(dropped)"]) }
      if step.isDone { break }
      // Years that were never forgotten take hours; half of the time is left to others.
      try? await Task.sleep(for: clock.now - start)
    }
    if deleted > 0 {
      logger.notice("forgot old rows", metadata: ["table": "\(table.rawValue)", "rows": "\(deleted)"])
    }
    return deleted
  }
}

/// How many whole months of a table are kept beside the one that runs; `nil` for all.
public struct Retention: Sendable, Equatable {
  /// `NOTIFICATION_RETENTION_MONTHS`
  public var notifications: Int?
  /// `TRANSACTION_RETENTION_MONTHS`
  public var transactions: Int?

  subscript(table: MonthlyTable) -> Int? {
    switch table {
    case .notifications: notifications
    case .transactions: transactions
    }
  }
}

import FoundationEssentials
public import Postgres

/// Divides tables into months while servers go on working with them, as `receiptd partition` does.
///
/// No row is moved: the table that is there becomes the first month of a new one. What takes time (a look at every row)
/// is done under a lock that keeps nobody from reading or writing; what locks everybody out takes a tenth of a
/// second, is waited for half a second at most, so that nobody waits longer behind it, and is tried again.
public struct Partitioning: Sendable {
  private let pool: PostgresPool
  private let attempts: Int
  private let pause: Duration

  /// A look at every row takes as long as it takes.
  private static let patience = Duration.seconds(24 * 3_600)
  /// The exchange of the tables, the waits for its locks included.
  private static let exchangeTime = Duration.seconds(30)

  /// - Parameters:
  ///   - pool: connects as the owner of the tables, directly or through a pooler that keeps sessions.
  ///   - attempts: how often to try what needs everybody out for a moment.
  ///   - pause: between two attempts.
  public init(pool: PostgresPool, attempts: Int = 120, pause: Duration = .seconds(5)) {
    self.pool = pool
    self.attempts = attempts
    self.pause = pause
  }

  /// Divides one table.
  ///
  /// - Parameter tell: hears what is being done, for a person who waits.
  /// - Returns: whether it was; if not, it had been divided before.
  /// - Throws: ``PostgresError``; the table is as it was.
  public func divide(
    _ table: MonthlyTable, _ tell: nonisolated(nonsending) (String) async -> Void = { _ in }
  ) async throws -> Bool {
    while true {
      do {
        return try await tryToDivide(table, tell)
      } catch is Overtaken {}
    }
  }

  /// Somebody else divided the table meanwhile, or gave up doing so: what was prepared is there no more.
  private struct Overtaken: Error {}

  private func tryToDivide(
    _ table: MonthlyTable, _ tell: nonisolated(nonsending) (String) async -> Void
  ) async throws -> Bool {
    await tell("\(table.rawValue): looking for the last of its rows")
    let bound = try await withAttempts { connection in
      try await connection.query(MonthRows.prepare(table), timeout: Self.patience)[0]
        .decode(0, as: Date?.self)
    }
    guard let bound else { return false }
    do {
      await tell("\(table.rawValue): reading every row, to be sure that all are from before \(bound.inWords)")
      _ = try await withAttempts { connection in
        try await connection.query(MonthRows.validate(table), timeout: Self.patience)
      }
      await tell("\(table.rawValue): making it the first month of a new table")
      let isDivided = try await withAttempts { connection in
        try await connection.query(MonthRows.divide(table), timeout: Self.exchangeTime)[0]
          .decode(0, as: Bool.self)
      }
      guard isDivided else { return false }
    } catch let error as PostgresError where error.sqlState == "42704" {
      throw Overtaken()
    } catch {
      // If this does not succeed either, a server takes it back in time.
      _ = try? await withAttempts { connection in try await connection.pipeline(MonthRows.giveUp(table)) }
      throw error
    }
    await tell("\(table.rawValue): gathering statistics")
    _ = try await pool.withConnection { connection in
      try await connection.query(MonthRows.analyze(table), timeout: Self.patience)
    }
    return true
  }

  /// Tries again where somebody else had a lock for too long, or two waited for each other.
  private func withAttempts<Answer>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> Answer
  ) async throws -> Answer {
    var left = attempts
    while true {
      left -= 1
      do {
        return try await pool.withConnection(body)
      } catch let error as PostgresError where left > 0 && (error.isRetryable || error.sqlState == "55P03") {
        try await Task.sleep(for: pause)
      }
    }
  }
}

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
  nonisolated(nonsending) public func divide(
    _ table: MonthlyTable, _ tell: nonisolated(nonsending) (String) async -> Void = { _ in }
  ) async throws -> Bool {
    try await pool.withConnection { connection in
      try await takeTurn(table, connection, tell)
      do {
        let isDivided = try await divideAlone(table, connection, tell)
        _ = try await connection.query(MonthRows.endTurn(table))
        return isDivided
      } catch {
        _ = try? await connection.query(MonthRows.endTurn(table))
        throw error
      }
    }
  }

  /// Of two who divide one table, each would take back what the other has prepared. A lock of the session, not waited
  /// for in a statement, whose snapshot would keep old rows from being cleaned up for as long.
  nonisolated(nonsending) private func takeTurn(
    _ table: MonthlyTable, _ connection: PostgresConnection,
    _ tell: nonisolated(nonsending) (String) async -> Void
  ) async throws {
    var hasTold = false
    while try await !connection.query(MonthRows.takeTurn(table))[0].decode(0, as: Bool.self) {
      if !hasTold { await tell("\(table.rawValue): waiting for somebody else who divides it") }
      hasTold = true
      try await Task.sleep(for: pause)
    }
  }

  nonisolated(nonsending) private func divideAlone(
    _ table: MonthlyTable, _ connection: PostgresConnection,
    _ tell: nonisolated(nonsending) (String) async -> Void
  ) async throws -> Bool {
    do {
      guard try await check(table, connection, tell) else { return false }
      await tell("\(table.rawValue): making it the first month of a new table")
      let isDivided = try await withAttempts {
        try await connection.query(MonthRows.divide(table), timeout: Self.exchangeTime)[0]
          .decode(0, as: Bool.self)
      }
      guard isDivided else { return false }
    } catch {
      // If this does not succeed either, a server takes it back in time.
      _ = try? await withAttempts { try await connection.pipeline(MonthRows.giveUp(table)) }
      throw error
    }
    await tell("\(table.rawValue): gathering statistics")
    _ = try await connection.query(MonthRows.analyze(table), timeout: Self.patience)
    return true
  }

  /// Makes sure that all rows lie before an instant.
  /// - Returns: whether there is something to divide.
  nonisolated(nonsending) private func check(
    _ table: MonthlyTable, _ connection: PostgresConnection,
    _ tell: nonisolated(nonsending) (String) async -> Void
  ) async throws -> Bool {
    var rounds = 0
    while true {
      await tell("\(table.rawValue): looking for the last of its rows")
      let bound = try await withAttempts {
        try await connection.query(MonthRows.prepare(table), timeout: Self.patience)[0]
          .decode(0, as: Date?.self)
      }
      guard let bound else { return false }
      await tell("\(table.rawValue): reading every row, to be sure that all are from before \(bound.inWords)")
      do {
        _ = try await withAttempts {
          try await connection.query(MonthRows.validate(table), timeout: Self.patience)
        }
        return true
      } catch let error as PostgresError where error.sqlState == "42704" && rounds < 3 {
        // What was prepared is there no more: a server has taken back what it held to be left behind, or somebody
        // divided the table by hand.
        rounds += 1
      }
    }
  }

  /// Tries again where somebody else had a lock for too long, or two waited for each other.
  nonisolated(nonsending) private func withAttempts<Answer>(
    _ body: nonisolated(nonsending) () async throws -> Answer
  ) async throws -> Answer {
    var left = attempts
    while true {
      left -= 1
      do {
        return try await body()
      } catch let error as PostgresError where left > 0 && (error.isRetryable || error.sqlState == "55P03") {
        try await Task.sleep(for: pause)
      }
    }
  }
}

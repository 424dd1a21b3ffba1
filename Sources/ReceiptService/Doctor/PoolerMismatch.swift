import Configuration
import Postgres

extension Settings {
  /// A difference between `DATABASE_POOLER` and the pooler that `DATABASE_URL` leads to.
  package enum PoolerMismatch: Sendable, Hashable {
    /// The pooler is in transaction mode, so prepared statements fail.
    case transaction
    /// The pooler refuses settings at login, so no connection can be made.
    case refusedOptions
    /// The pooler seems to be in session mode, and takes or ignores settings at login.
    case session

    /// Whether receiptd cannot work with this difference.
    package var isFatal: Bool { self != .session }

    /// A description of the difference.
    package var message: String {
      switch self {
      case .transaction: "DATABASE_URL leads to a pooler in transaction mode"
      case .refusedOptions: "DATABASE_URL leads to a pooler that refuses settings at login"
      case .session: "DATABASE_URL leads to a pooler, probably in session mode"
      }
    }

    /// The settings that repair it.
    package var remedy: String {
      switch self {
      case .transaction: "set DATABASE_POOLER=transaction"
      case .refusedOptions: "set DATABASE_POOLER=session, or transaction if that is the pooler's mode"
      case .session:
        "set DATABASE_POOLER=session (transaction if that is its mode), and idle_in_transaction_session_timeout on the role"
      }
    }
  }

  /// Compares `DATABASE_POOLER` with the pooler that `DATABASE_URL` leads to, if any.
  /// - Returns: `nil` if they agree, or if the setting is `transaction`, which works with every pooler.
  /// - Throws: ``PostgresError`` if the database is unreachable.
  package func findPoolerMismatch() async throws -> PoolerMismatch? {
    guard database.usesPreparedStatements else { return nil }
    switch try await database.findPooling() {
    case .direct: return nil
    case .transaction: return .transaction
    case .session: return database.setsOptions ? try await mismatchOfSessions() : nil
    }
  }

  private func mismatchOfSessions() async throws -> PoolerMismatch {
    var database = database
    database.maximumConnections = 1
    let pool = PostgresPool(configuration: database)
    defer { Task { await pool.close(grace: .zero) } }
    do {
      _ = try await pool.query("SELECT 1")
      return .session
    } catch let error as PostgresError {
      // libpq has no SQLSTATE for a refused login. PgBouncer's message is "unsupported startup parameter: options",
      // since 1.20 with the name of the option.
      if case .unavailable(let reason) = error.kind, reason.contains("startup parameter") {
        return .refusedOptions
      }
      throw error
    }
  }
}

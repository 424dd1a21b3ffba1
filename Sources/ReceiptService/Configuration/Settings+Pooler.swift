import Postgres

extension Settings {
  /// A disagreement between `DATABASE_POOLER` and the pooler that `DATABASE_URL` leads to.
  public enum PoolerMismatch: Sendable, Hashable {
    /// A pooler in transaction mode is in between: prepared statements meet server processes that do not know them.
    case transaction
    /// A pooler is in between that takes no settings at login, so that no connection can be made.
    case refusedOptions
    /// A pooler is in between that seems to keep sessions, and takes settings at login or ignores them.
    case session

    /// Whether receiptd cannot work like this.
    public var isFatal: Bool { self != .session }

    /// The finding, in words.
    public var finding: String {
      switch self {
      case .transaction: "DATABASE_URL leads to a pooler in transaction mode"
      case .refusedOptions: "DATABASE_URL leads to a pooler that refuses settings at login"
      case .session: "DATABASE_URL leads to a pooler, in session mode as far as can be seen"
      }
    }

    /// The remedy, in words.
    public var remedy: String {
      switch self {
      case .transaction: "set DATABASE_POOLER=transaction"
      case .refusedOptions: "set DATABASE_POOLER=session, or transaction if that is the pooler's mode"
      case .session:
        "set DATABASE_POOLER=session (transaction if that is its mode), and idle_in_transaction_session_timeout on the role"
      }
    }
  }

  /// Compares `DATABASE_POOLER` with the pooler that `DATABASE_URL` leads to, if it leads to one.
  /// - Returns: `nil` where they agree, and where the setting is `transaction`, with which everything works.
  /// - Throws: ``PostgresError`` where the database cannot be reached.
  public func findPoolerMismatch() async throws -> PoolerMismatch? {
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
      // libpq keeps no SQLSTATE of a refused login; PgBouncer says "unsupported startup parameter: options", and from 1.20
      // on names the option.
      if case .unavailable(let reason) = error.kind, reason.contains("startup parameter") {
        return .refusedOptions
      }
      throw error
    }
  }
}

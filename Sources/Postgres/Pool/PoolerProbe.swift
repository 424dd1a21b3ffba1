/// The kind of link between a client and PostgreSQL.
public enum Pooling: Sendable, Hashable {
  /// A connection to a process of the server itself.
  case direct
  /// A pooler that did not switch a client to another process of the server. A pooler in transaction mode without a
  /// free connection gives the same result.
  case session
  /// A pooler that assigns any process of the server to each transaction.
  case transaction
}

extension PostgresConfiguration {
  /// Detects a pooler between this process and PostgreSQL, and its mode, with two connections of its own.
  ///
  /// A pooler sends a process id of its own at login. In transaction mode, one connection uses several server
  /// processes, or two open connections use the same one; in session mode neither can happen.
  ///
  /// - Throws: ``PostgresError`` if no connection can be made.
  public func findPooling() async throws -> Pooling {
    var configuration = self
    // A pooler in transaction mode needs these settings.
    configuration.usesPreparedStatements = false
    configuration.setsOptions = false
    configuration.maximumConnections = 2
    configuration.minimumConnections = 0
    // The client of a pooler without a free connection waits.
    configuration.queryTimeout = min(queryTimeout, .seconds(2))
    let pool = PostgresPool(configuration: configuration)
    do {
      let pooling = try await pool.withConnection { try await PoolerProbe(first: $0, pool: pool).run() }
      await pool.close(grace: .zero)
      return pooling
    } catch {
      await pool.close(grace: .zero)
      throw error
    }
  }
}

/// Compares the server processes of two connections.
private struct PoolerProbe {
  let first: PostgresConnection
  let pool: PostgresPool

  /// Other clients of the pooler may hide its mode in one round.
  private static let rounds = 5

  /// A server process. Its id alone is not unique if the pooler has several servers.
  private struct Process: Equatable {
    var id: Int32
    var serverStart: String

    nonisolated(nonsending) init(of connection: PostgresConnection) async throws {
      let row = try await connection.query(
        "select pg_backend_pid(), extract(epoch from pg_postmaster_start_time())::text")[0]
      id = try row.decode(0)
      serverStart = try row.decode(1)
    }
  }

  nonisolated(nonsending) func run() async throws -> Pooling {
    let process = try await Process(of: first)
    guard process.id != first.pipelined.announcedProcess else { return .direct }
    do {
      return try await pool.withConnection { second in
        for _ in 0..<Self.rounds {
          // A pooler that assigns the least recently used process switches now.
          if try await Process(of: first) != process { return .transaction }
          // A pooler that assigns the most recently used process gives the second connection that of the first.
          let isShared = try await second.transaction { second in
            if try await Process(of: second) == process { return true }
            return try await Process(of: first) != process
          }
          if isShared { return .transaction }
        }
        return .session
      }
    } catch is PostgresError {
      // The pooler has no second connection to the server.
      return .session
    }
  }
}

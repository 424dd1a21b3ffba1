/// The kind of link between a client and PostgreSQL.
public enum Pooling: Sendable, Hashable {
  /// A connection to a process of the server itself.
  case direct
  /// A pooler that was not seen to give a client another process of the server. A pooler in transaction mode looks the same
  /// while it has no free connection.
  case session
  /// A pooler that gives each transaction any process of the server.
  case transaction
}

extension PostgresConfiguration {
  /// Finds out whether a pooler is between this process and PostgreSQL, and its mode, with two connections of its own.
  ///
  /// A pooler announces a process number of its own at login. In transaction mode, one connection meets several server
  /// processes, or two connections that are both open meet the same one; in session mode neither can happen.
  ///
  /// - Throws: ``PostgresError`` where no connection can be made.
  public func findPooling() async throws -> Pooling {
    var configuration = self
    // As a pooler in transaction mode needs it.
    configuration.usesPreparedStatements = false
    configuration.setsOptions = false
    configuration.maximumConnections = 2
    configuration.minimumConnections = 0
    // A pooler without a free connection lets its client wait.
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

/// Compares the server processes that two connections meet.
private struct PoolerProbe {
  let first: PostgresConnection
  let pool: PostgresPool

  /// Other clients of the pooler may hide its mode in one round.
  private static let rounds = 5

  /// A server process. Its number alone is not unique where the pooler has several servers.
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
    guard process.id != first.channel.announcedProcess else { return .direct }
    do {
      return try await pool.withConnection { second in
        for _ in 0..<Self.rounds {
          // A pooler that lends the process that has been free for the longest time gives another one now.
          if try await Process(of: first) != process { return .transaction }
          // A pooler that lends the one that came back last gives the second connection the process of the first.
          let isLentOn = try await second.transaction { second in
            if try await Process(of: second) == process { return true }
            return try await Process(of: first) != process
          }
          if isLentOn { return .transaction }
        }
        return .session
      }
    } catch is PostgresError {
      // The pooler has no second connection to the server to give.
      return .session
    }
  }
}

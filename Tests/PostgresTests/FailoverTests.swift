import Foundation
import Postgres
import TestDatabase
import Testing

/// A failover of the primary to another of several hosts.
@Suite(.timeLimit(.minutes(10))) struct FailoverTests {
  /// Runs `body` with two servers behind one URI; the second is read-only at first.
  private static func withTwoServers(
    _ body: (_ pool: PostgresPool, _ first: PrivatePostgres, _ second: PrivatePostgres) async throws -> Void
  ) async throws {
    let servers = [try await PrivatePostgres.start(), try await PrivatePostgres.start()]
    let hosts = servers.map { server in
      server.uri.drop { $0 != "@" }.dropFirst().prefix { $0 != "/" }
    }
    for server in servers {
      try await TestDatabase(uri: server.uri).withPool { _ = try await $0.query("create table t (n int)") }
    }
    try await setReadOnly(servers[1], true)
    let uri = "postgresql://postgres@\(hosts.joined(separator: ","))/postgres?target_session_attrs=read-write"
    var configuration = try PostgresConfiguration(uri: uri)
    configuration.acquireTimeout = .seconds(60)
    let pool = PostgresPool(configuration: configuration)
    let result = await Result { try await body(pool, servers[0], servers[1]) }
    await pool.close()
    for server in servers { try await server.remove() }
    try result.get()
  }

  /// Makes the server read-only for new and open sessions, as a demoted server is.
  private static func setReadOnly(_ server: PrivatePostgres, _ isReadOnly: Bool) async throws {
    try await TestDatabase(uri: server.uri).withPool { pool in
      _ = try await pool.query(
        "alter system set default_transaction_read_only = \(unescaped: isReadOnly ? "on" : "off")")
      _ = try await pool.query("select pg_reload_conf()")
      // The server applies the new setting asynchronously.
      while try await pool.query("show default_transaction_read_only").first?.decode(0, as: String.self)
        != (isReadOnly ? "on" : "off")
      {
        try await Task.sleep(for: .milliseconds(5))
      }
    }
  }

  private static func writtenPort(_ pool: PostgresPool) async throws -> Int32? {
    try await pool.query("with w as (insert into t values (1) returning n) select inet_server_port() from w")
      .first?.decode(0, as: Int32.self)
  }

  /// Writes until it succeeds; every failure until then must be `isUnavailable`.
  private static func writtenPortInTheEnd(_ pool: PostgresPool) async throws -> Int32? {
    while true {
      do {
        return try await writtenPort(pool)
      } catch let error as PostgresError {
        try #require(error.isUnavailable, "\(error)")
        try await Task.sleep(for: .milliseconds(10))
      }
    }
  }

  @Test func `an existing pool writes to the promoted server after a planned switch and after a crash`()
    async throws
  {
    try await Self.withTwoServers { pool, first, second in
      let before = try #require(try await Self.writtenPort(pool))
      #expect(first.uri.contains(":\(before)/"))
      // A planned switch: connections stay open, and the old primary becomes read-only.
      try await Self.setReadOnly(second, false)
      try await Self.setReadOnly(first, true)
      let planned = try #require(try await Self.writtenPort(pool))
      #expect(second.uri.contains(":\(planned)/"))
      // A crash: the primary stops, and the other server is promoted.
      try await Self.setReadOnly(first, false)
      try await second.down()
      let crashed = try #require(try await Self.writtenPortInTheEnd(pool))
      #expect(first.uri.contains(":\(crashed)/"))
    }
  }
}

extension FailoverTests {
  @Test func `a planned switch fails no write of a warm pool`() async throws {
    try await Self.withTwoServers { pool, first, second in
      var servers = (old: first, new: second)
      for _ in 0..<3 {
        try await pool.warm(6)
        try await Self.setReadOnly(servers.new, false)
        try await Self.setReadOnly(servers.old, true)
        let new = servers.new
        try await withThrowingTaskGroup { group in
          for number in 0..<24 {
            group.addTask {
              // Half of the transactions read before they write, as most do.
              let port =
                number.isMultiple(of: 2)
                ? try await Self.writtenPort(pool)
                : try await pool.withTransaction { connection in
                  _ = try await connection.query("select count(*) from t")
                  return try await connection.query(
                    "with w as (insert into t values (1) returning n) select inet_server_port() from w"
                  ).first?.decode(0, as: Int32.self)
                }
              _ = try #require(port)
            }
          }
          try await group.waitForAll()
        }
        // A session of the old server may accept a write before it reads its new setting. Later writes all go to the
        // new server.
        var written: Int32
        repeat {
          written = try #require(try await Self.writtenPort(pool))
        } while !new.uri.contains(":\(written)/")
        servers = (old: servers.new, new: servers.old)
      }
    }
  }
}

extension Result where Failure == any Error {
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}

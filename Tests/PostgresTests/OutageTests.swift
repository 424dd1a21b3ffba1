import Foundation
import Postgres
import TestDatabase
import Testing

/// Outages of a real server and of the network.
struct OutageTests {
  @Test func `a query beyond its timeout is cancelled on the client and on the server`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.queryTimeout = .milliseconds(200)
      } _: { pool in
        let error = try await postgresError { try await pool.query("select pg_sleep(600)") }
        #expect(error?.kind == .timedOut)
      }
      try await database.withPool { pool in
        let isStopped = try await pool.wait(
          until:
            "select count(*) = 0 from pg_stat_activity where query like '%sleep(600)' and state = 'active'")
        #expect(isStopped)
      }
    }
  }

  @Test func `cancelling a task cancels its query on the client and on the server`() async throws {
    try await withPool { pool in
      let task = Task { try await pool.query("select pg_sleep(601)") }
      let isRunning = try await pool.wait(
        until: "select count(*) = 1 from pg_stat_activity where query = 'select pg_sleep(601)'")
      #expect(isRunning)
      task.cancel()
      await #expect(throws: CancellationError.self) { _ = try await task.value }
      let isStopped = try await pool.wait(
        until:
          "select count(*) = 0 from pg_stat_activity where query = 'select pg_sleep(601)' and state = 'active'"
      )
      #expect(isStopped)
    }
  }

  @Test func `a terminated session fails its query, and the pool recovers`() async throws {
    try await withPool { pool in
      let task = Task { try await pool.query("select pg_sleep(602)") }
      let isRunning = try await pool.wait(
        until: "select count(*) = 1 from pg_stat_activity where query = 'select pg_sleep(602)'")
      #expect(isRunning)
      _ = try await pool.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(602)'")
      let error = try await postgresError { try await task.value }
      #expect(error?.sqlState == "57P01")
      #expect(error?.isUnavailable == true)
      let one = try await pool.number("select 1")
      #expect(one == 1)
    }
  }

  @Test func `the error after an idle transaction's timeout is the server's reason`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.queryTimeout = .seconds(1)
      } _: { pool in
        let error = try await postgresError {
          try await pool.withTransaction { connection in
            let process = try await connection.query("select pg_backend_pid()::int").first!.decode(
              0, as: Int.self)
            let hasEnded = try await database.withPool { other in
              try await other.wait(
                until:
                  "select not exists (select from pg_stat_activity where pid = \(unescaped: "\(process)"))")
            }
            #expect(hasEnded)
            _ = try await connection.query("select 1")
          }
        }
        #expect(error?.isUnavailable == true)
        #expect(error?.description.contains("idle-in-transaction timeout") == true)
      }
    }
  }

  @Test func `sessions that were terminated while idle are not leased again`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.maximumConnections = 3
      } _: { pool in
        for _ in 0..<5 {
          try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<3 { group.addTask { try await pool.number("select 1 from pg_sleep(0.01)") } }
            for try await one in group { #expect(one == 1) }
          }
          try await database.withPool { other in
            let killed = try await other.query(
              """
              select pid, pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()
              """)
            // A session leaves pg_stat_activity before its process ends and closes its socket.
            for row in killed {
              let process = "/proc/\(try row.decode(0, as: Int.self))"
              for _ in 0..<12_000 where FileManager.default.fileExists(atPath: process) {
                try await Task.sleep(for: .milliseconds(10))
              }
            }
          }
        }
      }
    }
  }

  @Test func `a pool uses its server again after the server was down`() async throws {
    let server = try await PrivatePostgres.start()
    var configuration = try PostgresConfiguration(uri: server.uri)
    configuration.acquireTimeout = .seconds(1)
    let pool = PostgresPool(configuration: configuration)
    let before = await firstAnswer(of: pool, "select 1")
    #expect(before == 1)
    try await server.down()
    for _ in 0..<5 {
      let error = try await postgresError { try await pool.query("select 1") }
      #expect(error?.isUnavailable == true)
    }
    try await server.up()
    let after = await firstAnswer(of: pool, "select 2")
    #expect(after == 2)
    await pool.close()
    try await server.remove()
  }

  @Test func `the pool connects to the next host if the first is down`() async throws {
    try await withTestDatabase { database in
      let dead = try Proxy(to: 1)
      dead.stop()
      let hosts = "127.0.0.1:\(dead.port),127.0.0.1:\(database.port)"
      let pool = PostgresPool(
        configuration: try PostgresConfiguration(
          uri: database.uri(hosts: hosts) + "?target_session_attrs=read-write"))
      let port = try await pool.number("select inet_server_port()")
      #expect(port == Int(database.port))
      await pool.close()
    }
  }

  @Test func `the error of an unreachable server names the port and not the password`() async throws {
    let dead = try Proxy(to: 1)
    dead.stop()
    var configuration = try PostgresConfiguration(uri: "postgresql://user:s3cret@127.0.0.1:\(dead.port)/db")
    configuration.acquireTimeout = .milliseconds(100)
    let pool = PostgresPool(configuration: configuration)
    let error = try await postgresError { try await pool.query("select 1") }
    #expect("\(error as Any)".contains("port \(dead.port) failed"))
    #expect(!"\(error as Any)".contains("s3cret"))
    await pool.close()
  }

  @Test("a COMMIT whose response is lost has an unknown outcome", arguments: [false, true])
  func lostCommit(travelsWithStatements: Bool) async throws {
    try await withTestDatabase { database in
      let proxy = try Proxy(to: database.port)
      let pool = PostgresPool(configuration: try PostgresConfiguration(uri: database.uri(port: proxy.port)))
      _ = try await pool.query("create table t (n int)")
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          if travelsWithStatements {
            proxy.set(.cutAtAnswer)
            _ = try await connection.commit(after: ["insert into t values (1)"])
          } else {
            _ = try await connection.query("insert into t values (1)")
            proxy.set(.cutAtAnswer)
          }
        }
      }
      guard case .outcomeUnknown = error?.kind else {
        Issue.record("\(error as Any)")
        return
      }
      // The server did commit, and the pool works again once the network does.
      proxy.set(.pass)
      let isCommitted = try await pool.wait(until: "select count(*) = 1 from t")
      #expect(isCommitted)
      await pool.close()
      proxy.stop()
    }
  }

  @Test func `a pipeline without a response has an unknown outcome`() async throws {
    try await withTestDatabase { database in
      let proxy = try Proxy(to: database.port)
      let pool = PostgresPool(configuration: try PostgresConfiguration(uri: database.uri(port: proxy.port)))
      _ = try await pool.query("create table t (n int)")
      proxy.set(.cutAtAnswer)
      let error = try await postgresError {
        try await pool.transaction(pipeline: ["insert into t values (1)"])
      }
      guard case .outcomeUnknown = error?.kind else {
        Issue.record("\(error as Any)")
        return
      }
      await pool.close()
      proxy.stop()
    }
  }

  @Test func `a query on a network that drops everything fails at the query timeout`() async throws {
    try await withTestDatabase { database in
      let proxy = try Proxy(to: database.port)
      var configuration = try PostgresConfiguration(uri: database.uri(port: proxy.port))
      configuration.queryTimeout = .milliseconds(200)
      let pool = PostgresPool(configuration: configuration)
      #expect(await firstAnswer(of: pool, "select 1") == 1)
      proxy.set(.silent)
      let error = try await postgresError { try await pool.query("select 1") }
      #expect(error?.kind == .timedOut)
      proxy.set(.pass)
      let answer = await firstAnswer(of: pool, "select 2")
      #expect(answer == 2)
      await pool.close()
      proxy.stop()
    }
  }

  @Test func `a connection to a server that became read-only is replaced, and the statement runs`()
    async throws
  {
    try await withPool {
      $0.maximumConnections = 1
      $0.acquireTimeout = .seconds(60)
    } _: { pool in
      _ = try await pool.query("create table t (n int)")
      let first = try await pool.number("select pg_backend_pid()")
      _ = try await pool.query("set default_transaction_read_only = on")
      let inserted = try await pool.query("insert into t values (1)")
      #expect(inserted.affected == 1)
      let second = try await pool.number("select pg_backend_pid()")
      #expect(first != second)
    }
  }

  @Test func `a write to a read-only database fails after one more attempt`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("create table t (n int)")
        _ = try await pool.query(
          """
          do $$ begin
            execute format('alter database %I set default_transaction_read_only = on', current_database());
          end $$
          """)
      }
      try await database.withPool {
        $0.acquireTimeout = .seconds(60)
      } _: { pool in
        var runs = 0
        let error = try await postgresError {
          try await pool.withTransaction { connection in
            runs += 1
            _ = try await connection.query("insert into t values (1)")
          }
        }
        #expect(error?.sqlState == "25006")
        #expect(error?.isUnavailable == true)
        #expect(runs == 2)
        try await pool.withConnection { connection in
          _ = try await connection.query("set default_transaction_read_only = off")
          _ = try await connection.query(
            "do $$ begin execute format('alter database %I reset all', current_database()); end $$")
        }
      }
    }
  }
}

/// Retries until the pool succeeds, which can take a few attempts with a short timeout.
private func firstAnswer(of pool: PostgresPool, _ query: Query) async -> Int? {
  let end = ContinuousClock.now + .seconds(120)
  while ContinuousClock.now < end {
    if let answer = try? await pool.number(query) { return answer }
  }
  return nil
}

import Postgres
import TestDatabase
import Testing

/// The server ends sessions of a pool between two uses. The pool repeats work on another connection only if none of it
/// can have been committed.
@Suite(.timeLimit(.minutes(10))) struct EndedSessionTests {
  @Test func `a server restart while the pool is idle fails no query`() async throws {
    let server = try await PrivatePostgres.start()
    var configuration = try PostgresConfiguration(uri: server.uri)
    configuration.maximumConnections = 6
    configuration.acquireTimeout = .seconds(60)
    let pool = PostgresPool(configuration: configuration)
    let failure: (any Error)?
    do {
      for _ in 0..<3 {
        try await pool.warm(6)
        try await server.restart()
        try await Self.askAtOnce(pool, times: 24)
      }
      failure = nil
    } catch {
      failure = error
    }
    await pool.close()
    try await server.remove()
    if let failure { throw failure }
  }

  @Test func `idle sessions that an administrator ends fail no query`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.maximumConnections = 6
        $0.acquireTimeout = .seconds(60)
      } _: { pool in
        try await database.withPool { administrator in
          for _ in 0..<20 {
            try await pool.warm(6)
            // A session may not have handled the signal yet when the pool uses its connection.
            _ = try await administrator.query(
              """
              select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()
              """)
            try await Self.askAtOnce(pool, times: 12)
          }
        }
      }
    }
  }

  private static func askAtOnce(_ pool: PostgresPool, times: Int) async throws {
    try await withThrowingTaskGroup { group in
      for number in 0..<times {
        group.addTask {
          let answer =
            number.isMultiple(of: 2)
            ? try await pool.number("select \(number)::int")
            : try await pool.withTransaction { connection in
              try await connection.query("select \(number)::int")[0].decode(0, as: Int.self)
            }
          #expect(answer == number)
        }
      }
      try await group.waitForAll()
    }
  }

  /// Ways to insert a row.
  enum Work: String, CaseIterable {
    case query, pipeline, transaction, transactionThatCommits

    nonisolated(nonsending) func run(on pool: PostgresPool) async throws {
      switch self {
      case .query: _ = try await pool.query("insert into t values (1)")
      case .pipeline: _ = try await pool.transaction(pipeline: ["insert into t values (1)", "select 1"])
      case .transaction:
        try await pool.withTransaction { _ = try await $0.query("insert into t values (1)") }
      case .transactionThatCommits:
        try await pool.withTransaction { _ = try await $0.commit(after: ["insert into t values (1)"]) }
      }
    }
  }

  @Test(arguments: Work.allCases)
  func `work runs once, on another connection, if its session ends before it reads a statement`(work: Work)
    async throws
  {
    try await withTestDatabase { database in
      let proxy = try Proxy(to: database.port)
      var configuration = try PostgresConfiguration(uri: database.uri(port: proxy.port))
      configuration.maximumConnections = 1
      configuration.queryTimeout = .seconds(60)
      configuration.acquireTimeout = .seconds(60)
      let pool = PostgresPool(configuration: configuration)
      _ = try await pool.query("create table t (n int)")
      let process = try await pool.number("select pg_backend_pid()")
      proxy.set(.silent)
      let running = Task { try await work.run(on: pool) }
      try await proxy.awaitHeldRequest()
      try await database.withPool { administrator in
        _ = try await administrator.query("select pg_terminate_backend(\(process)::int, 60000)")
      }
      proxy.set(.pass)
      try await running.value
      let rows = try await pool.number("select count(*) from t")
      #expect(rows == 1)
      await pool.close()
      proxy.stop()
    }
  }

  @Test func `a transaction is repeated as a whole if its session ends before COMMIT`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.acquireTimeout = .seconds(60)
      } _: { pool in
        _ = try await pool.query("create table t (n int)")
        var runs = 0
        try await pool.withTransaction { connection in
          runs += 1
          _ = try await connection.query("insert into t values (1)")
          if runs == 1 {
            try await Self.endSession(of: connection, of: database)
          }
          _ = try await connection.query("insert into t values (2)")
        }
        #expect(runs == 2)
        let rows = try await pool.number("select count(*) from t")
        #expect(rows == 2)
      }
    }
  }

  @Test func `a transaction that loses every session fails after one more attempt`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.acquireTimeout = .seconds(60)
      } _: { pool in
        var runs = 0
        let error = try await postgresError {
          try await pool.withTransaction { connection in
            runs += 1
            try await Self.endSession(of: connection, of: database)
            _ = try await connection.query("select 1")
          }
        }
        #expect(error?.isUnavailable == true)
        #expect(runs == 2)
      }
    }
  }

  @Test func `work that lost its session after the acquire timeout is not repeated`()
    async throws
  {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.acquireTimeout = .milliseconds(1)
      } _: { pool in
        while pool.status.idle == 0 { _ = try? await pool.query("select 1") }
        var runs = 0
        let error = try await postgresError {
          try await pool.withTransaction { connection in
            runs += 1
            try await Self.endSession(of: connection, of: database)
            _ = try await connection.query("select 1")
          }
        }
        #expect(error?.isUnavailable == true)
        #expect(runs == 1)
      }
    }
  }

  @Test func `a transaction that may have been committed is not run again`() async throws {
    try await withTestDatabase { database in
      let proxy = try Proxy(to: database.port)
      let pool = PostgresPool(configuration: try PostgresConfiguration(uri: database.uri(port: proxy.port)))
      _ = try await pool.query("create table t (n int)")
      for swallowsError in [false, true] {
        var runs = 0
        let error = try await postgresError {
          try await pool.withTransaction { connection in
            runs += 1
            proxy.set(.cutAtAnswer)
            defer { proxy.set(.pass) }
            do {
              _ = try await connection.commit(after: ["insert into t values (1)"])
            } catch  where swallowsError {}
          }
        }
        #expect(error != nil)
        #expect(runs == 1)
      }
      let isCommitted = try await pool.wait(until: "select count(*) = 2 from t")
      #expect(isCommitted)
      await pool.close()
      proxy.stop()
    }
  }

  @Test func `work outside of a transaction is not repeated after one of its statements returned`()
    async throws
  {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("create table t (n int)")
        var runs = 0
        let error = try await postgresError {
          try await pool.withConnection { connection in
            runs += 1
            _ = try await connection.query("insert into t values (1)")
            try await Self.endSession(of: connection, of: database)
            _ = try await connection.query("insert into t values (2)")
          }
        }
        #expect(error?.isUnavailable == true)
        #expect(runs == 1)
        let rows = try await pool.number("select count(*) from t")
        #expect(rows == 1)
      }
    }
  }

  private nonisolated(nonsending) static func endSession(
    of connection: PostgresConnection, of database: TestDatabase
  ) async throws {
    let process = try await connection.query("select pg_backend_pid()")[0].decode(0, as: Int.self)
    try await database.withPool { administrator in
      _ = try await administrator.query("select pg_terminate_backend(\(process)::int, 60000)")
    }
  }
}

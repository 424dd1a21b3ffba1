import Postgres
import Testing

/// Attempts: statements sent in one pipeline with others, under a savepoint of their own.
struct SavepointAttemptTests {
  private struct Unwanted: Error {}

  private func withTable(_ body: nonisolated(nonsending) (PostgresPool) async throws -> Void) async throws {
    try await withPool {
      $0.maximumConnections = 2
    } _: { pool in
      _ = try await pool.query("create table t (n int unique)")
      try await body(pool)
    }
  }

  private func numbers(_ pool: PostgresPool) async throws -> [Int] {
    try await pool.query("select n from t order by n").map { try $0.decode(0, as: Int.self) }
  }

  @Test func `an attempt returns its rows with the pipeline, and a continued attempt is committed`()
    async throws
  {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        let (answers, attempt) = try await connection.pipeline(
          ["insert into t values (1)", "select 2"], attempting: ["select 3", "insert into t values (4)"])
        #expect(answers.count == 2)
        #expect(try answers[1][0].decode(0, as: Int.self) == 2)
        let rows = try attempt.get().rows
        #expect(rows.count == 2)
        #expect(try rows[0][0].decode(0, as: Int.self) == 3)
        _ = try await connection.savepoint(continuing: attempt.get()) { connection in
          try await connection.commit(after: ["insert into t values (5)"])
        }
      }
      #expect(try await numbers(pool) == [1, 4, 5])
    }
  }

  @Test(arguments: [
    ["insert into t values (2)", "select 1 / 0"], ["select 1 / 0", "insert into t values (2)"],
    ["insert into t values (2)", "select * from nothing_of_that_name"], ["insert into t values (2), (1)"],
  ])
  func `a failed attempt is rolled back, and its transaction continues`(attempted: [String]) async throws {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        // The error must tell a failed attempt from a failed first query, with new and with prepared statements.
        for round in 0..<2 {
          let (answers, attempt) = try await connection.pipeline(
            ["insert into t values (\(round * 10 + 1))"], attempting: attempted.map { Query(unescaped: $0) })
          #expect(answers.map(\.affected) == [1])
          #expect(throws: PostgresError.self) { try attempt.get() }
        }
        _ = try await connection.query("insert into t values (20)")
      }
      #expect(try await numbers(pool) == [1, 11, 20])
    }
  }

  @Test func `a failure before the attempt fails the transaction`() async throws {
    try await withTable { pool in
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.pipeline(
            ["insert into t values (1)", "select 1 / 0"], attempting: ["insert into t values (2)"])
        }
      }
      #expect(error?.sqlState == "22012")
      #expect(try await numbers(pool).isEmpty)
    }
  }

  @Test func `an attempt adds its own timeout to the query timeout`() async throws {
    try await withPool {
      $0.queryTimeout = .milliseconds(1500)
    } _: { pool in
      let slow: Query = "select pg_sleep(1)"
      try await pool.withTransaction { connection in
        let (_, attempt) = try await connection.pipeline([slow], attempting: [slow], within: .seconds(20))
        #expect(try attempt.get().rows.count == 1)
      }
    }
  }

  @Test func `a failure in the continuation rolls back only the attempt`() async throws {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        let (_, attempt) = try await connection.pipeline(
          ["insert into t values (1)"], attempting: ["insert into t values (2)"])
        await #expect(throws: PostgresError.self) {
          try await connection.savepoint(continuing: attempt.get()) { connection in
            try await connection.commit(after: ["insert into t values (3)", "select 1 / 0"])
          }
        }
        #expect(!connection.isCommitted)
        await #expect(throws: Unwanted.self) {
          try await connection.savepoint(continuing: attempt.get()) { _ in throw Unwanted() }
        }
        _ = try await connection.query("insert into t values (4)")
      }
      #expect(try await numbers(pool) == [1, 4])
    }
  }

  /// The second statement fails before the server handles the termination signal.
  @Test(arguments: [
    "select pg_terminate_backend(pg_backend_pid())",
    "select 1 / (n - n) from (select pg_terminate_backend(pg_backend_pid())::int as n) as ended",
  ])
  func `a session that ends during the attempt fails the transaction, also after an earlier failure`(
    ending: String
  )
    async throws
  {
    try await withTable { pool in
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.pipeline(
            ["insert into t values (1)"], attempting: [Query(unescaped: ending), "select 1"])
        }
      }
      #expect(error?.isUnavailable == true)
      #expect(try await numbers(pool).isEmpty)
    }
  }
}

import Postgres
import Testing

struct PipelineTests {
  @Test func `a pipeline returns the rows of its statements in order`() async throws {
    try await withPool { pool in
      let results = try await pool.withConnection { connection in
        try await connection.pipeline([
          "select 1 as n", "select n from generate_series(2, 3) n", "select 4 as n",
        ])
      }
      #expect(try results.map { try $0.map { try $0.decode("n", as: Int.self) } } == [[1], [2, 3], [4]])
    }
  }

  @Test func `an empty pipeline has no results`() async throws {
    try await withPool { pool in
      let results = try await pool.transaction(pipeline: [])
      #expect(results.isEmpty)
    }
  }

  @Test(arguments: 0..<5)
  func `a failed statement at any place rolls back the whole pipeline`(failing: Int) async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int check (n < 100))")
      let queries: [Query] = (0..<5).map { "insert into t values (\($0 == failing ? 100 + $0 : $0))" }
      let error = try await postgresError { try await pool.transaction(pipeline: queries) }
      #expect(error?.sqlState == "23514")
      let count = try await pool.number("select count(*) from t")
      #expect(count == 0)
      _ = try await pool.transaction(pipeline: (0..<5).map { "insert into t values (\($0))" })
      let after = try await pool.number("select count(*) from t")
      #expect(after == 5)
    }
  }

  @Test func `a constraint violation at COMMIT fails the pipeline`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      _ = try await pool.query("create table t (n int unique deferrable initially deferred)")
      let error = try await postgresError {
        try await pool.transaction(pipeline: ["insert into t values (1)", "insert into t values (1)"])
      }
      #expect(error?.sqlState == "23505")
      let count = try await pool.number("select count(*) from t")
      #expect(count == 0)
    }
  }

  @Test func `a pipeline can have ten thousand statements`() async throws {
    try await withPool { pool in
      let results = try await pool.transaction(pipeline: (0..<10_000).map { "select \($0)::int as n" })
      #expect(try results.last?[0].decode("n", as: Int.self) == 9999)
      #expect(results.count == 10_000)
    }
  }

  @Test func `a pipeline can send and receive more than the socket's buffers hold`() async throws {
    try await withPool { pool in
      let large = String(repeating: "0123456789", count: 300_000)
      let results = try await pool.transaction(
        pipeline: (0..<10).map { "select \(large)::text || \($0)::text as t" })
      let lengths = try results.map { try $0[0].decode("t", as: String.self).utf8.count }
      #expect(lengths == Array(repeating: 3_000_001, count: 10))
    }
  }

  @Test func `a statement of a pipeline can use a table that an earlier one created`() async throws {
    try await withPool { pool in
      let results = try await pool.transaction(pipeline: [
        "create table t (n int)", "insert into t values (\(3))", "select n from t",
      ])
      #expect(try results[2][0].decode("n", as: Int.self) == 3)
    }
  }

  @Test func `a failed statement of a pipeline in a transaction fails the transaction`() async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int)")
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          return try await connection.pipeline(["insert into t values (2)", "select 1 / 0"])
        }
      }
      #expect(error?.sqlState == "22012")
      let count = try await pool.number("select count(*) from t")
      #expect(count == 0)
    }
  }
}

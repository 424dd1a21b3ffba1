import Testing

@testable import Postgres

struct ErrorTests {
  @Test func `a server error has SQLSTATE, constraint and position`() async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int constraint only_once primary key)")
      _ = try await pool.query("insert into t values (1)")
      let duplicate = try await postgresError { try await pool.query("insert into t values (\(1))") }
      #expect(duplicate?.kind == .server(sqlState: "23505"))
      #expect(duplicate?.report?.constraint == "only_once")
      #expect(duplicate?.report?.table == "t")
      let missing = try await postgresError { try await pool.query("select * from nowhere") }
      #expect(missing?.sqlState == "42P01")
      #expect(missing?.report?.position == 15)
      #expect(missing.map { "\($0)" } == #"relation "nowhere" does not exist (42P01)"#)
      let works = try await pool.number("select count(*) from t")
      #expect(works == 1)
    }
  }

  @Test(arguments: ["s3cret-value", "quotes \" inside", "12345678901234567890x"])
  func `the text of an error has no bound value`(value: String) async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int, u uuid, name text unique)")
      let queries: [Query] = [
        "insert into t (n) values (\(value))", "insert into t (u) values (\(value))",
        "select (\(value)::text)::int",
        "insert into t (name) values (\(value)), (\(value))",
        "select \(value)::timestamptz", "select \(value)::jsonb",
      ]
      for query in queries {
        let error = try #require(try await postgresError { try await pool.query(query) })
        #expect(!"\(error)".contains(value), "\(error)")
        #expect(!"\(error)".contains("s3cret"), "\(error)")
      }
    }
  }

  @Test func `a NUL in a text value is refused before the statement is sent`() async throws {
    try await withPool { pool in
      let scalar = try await postgresError { try await pool.query("select \(1)::int, \("a\0b")::text") }
      #expect(scalar?.kind == .encoding("parameter $2: text cannot hold a NUL character"))
      let element = try await postgresError { try await pool.query("select \(["a\0b"])::text[]") }
      #expect(element?.sqlState == "22021")
    }
  }

  @Test func `deadlocks and serialization failures are retryable, and connection failures are unavailable`() {
    func error(_ state: String) -> PostgresError {
      PostgresError(ServerReport(severity: "ERROR", sqlState: state, message: ""))
    }
    for state in ["40001", "40P01"] { #expect(error(state).isRetryable && !error(state).isUnavailable) }
    for state in ["57P01", "57P02", "57P03", "53300", "08006", "08P01", "25006"] {
      #expect(error(state).isUnavailable && !error(state).isRetryable)
    }
    #expect(!error("23505").isUnavailable && !error("23505").isRetryable)
    for state in ["26000", "42P05"] { #expect(error(state).isTransient && !error(state).isUnavailable) }
  }

  @Test func `an error tells an incomplete schema from a wrong statement and an unavailable database`() {
    for state in ["42P01", "3F000", "42703", "42883", "42P10", "42501"] {
      let error = PostgresError(ServerReport(severity: "ERROR", sqlState: state, message: ""))
      #expect(error.isSchemaIncomplete && !error.isUnavailable && !error.isTransient, "\(state)")
    }
    for state in ["42601", "23505", "22001", "57P01", "XX000"] {
      let error = PostgresError(ServerReport(severity: "ERROR", sqlState: state, message: ""))
      #expect(!error.isSchemaIncomplete, "\(state)")
    }
  }

  @Test(arguments: ["FATAL", "PANIC"])
  func `every FATAL or PANIC report counts as the end of the session`(severity: String) {
    for state in ["57P05", "25P04", "57P04", "XX000", "28000", "22000"] {
      let error = PostgresError(ServerReport(severity: severity, sqlState: state, message: ""))
      #expect(error.endedSession && error.isUnavailable && error.isTransient, "\(state)")
    }
    let refusal = PostgresError(ServerReport(severity: "ERROR", sqlState: "XX000", message: ""))
    #expect(!refusal.endedSession && !refusal.isUnavailable)
  }

  @Test func `COPY is refused, and the pool still works`() async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int)")
      for copy: Query in ["copy t from stdin", "copy t to stdout"] {
        let error = try await postgresError { try await pool.query(copy) }
        #expect(error != nil)
      }
      let works = try await pool.number("select 1")
      #expect(works == 1)
    }
  }

  @Test func `a query with too many values is refused`() async throws {
    try await withPool { pool in
      var query = Query.StringInterpolation(literalCapacity: 0, interpolationCount: 65536)
      query.appendLiteral("select 1 where 0 in (0")
      for n in 0...65535 {
        query.appendLiteral(",")
        query.appendInterpolation(n)
      }
      query.appendLiteral(")")
      let tooMany = Query(stringInterpolation: query)
      let error = try await postgresError { try await pool.query(tooMany) }
      #expect(error?.kind == .encoding("a query has more than 65535 values"))
    }
  }
}

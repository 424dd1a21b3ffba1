import Testing

@testable import Postgres

/// The cache of prepared statements: reuse, eviction and repair.
struct StatementTests {
  @Test func `a statement is prepared once per connection`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      for n in 0..<5 { _ = try await pool.query("select \(n)::int") }
      let count = try await pool.number(
        "select count(*) from pg_prepared_statements where statement like 'select $1%'")
      #expect(count == 1)
    }
  }

  @Test func `a connection deallocates the least recently used statements beyond its maximum`() async throws {
    try await withPool { configuration in
      configuration.maximumConnections = 1
      configuration.maximumPreparedStatements = 4
    } _: { pool in
      for n in 0..<20 {
        _ = try await pool.query("select 'kept'")
        _ = try await pool.query(Query(unescaped: "select \(n)"))
      }
      let rows = try await pool.query("select statement from pg_prepared_statements order by prepare_time")
      let statements = try rows.map { try $0.decode("statement", as: String.self) }
      #expect(statements.count <= 5)
      #expect(statements.first == "select 'kept'")
    }
  }

  @Test func `a prepared statement is prepared again after a column changed its type`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      _ = try await pool.query("create table t (a int)")
      _ = try await pool.query("insert into t values (1)")
      let query: Query = "select * from t"
      _ = try await pool.query(query)
      _ = try await pool.query("alter table t alter a type text, add b int default 2")
      let rows = try await pool.query(query)
      #expect(rows.columns == ["a", "b"])
      #expect(try rows[0].decode("a", as: String.self) == "1")
      // The stale statement is closed with the next batch.
      _ = try await pool.query(query)
      let count = try await pool.number(
        "select count(*) from pg_prepared_statements where statement = 'select * from t'")
      #expect(count == 1)
    }
  }

  @Test func `statements that the server deallocated are prepared again`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      let query: Query = "select \(7)::int"
      _ = try await pool.query(query)
      _ = try await pool.query("deallocate all")
      let seven = try await pool.number(query)
      #expect(seven == 7)
    }
  }

  @Test func `a deallocated statement fails its transaction, and the next transaction works`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      let query: Query = "select \(7)::int"
      _ = try await pool.query(query)
      _ = try await pool.query("deallocate all")
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.query("select 1")
          return try await connection.query(query)
        }
      }
      #expect(error?.sqlState == "26000")
      let rows = try await pool.withTransaction { try await $0.query(query) }
      #expect(rows.count == 1)
    }
  }

  @Test func `the same SQL text is prepared once per type of its values`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      func typed(_ value: some PostgresEncodable) -> Query { "select pg_typeof(\(value))::text as t" }
      for _ in 0..<2 {
        let bool = try await pool.query(typed(true))
        let bytes = try await pool.query(typed([1] as [UInt8]))
        #expect(try bool[0].decode("t", as: String.self) == "boolean")
        #expect(try bytes[0].decode("t", as: String.self) == "bytea")
      }
    }
  }

  @Test func `a statement that could not be prepared is not cached`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      let query: Query = "select n from later"
      let error = try await postgresError { try await pool.query(query) }
      #expect(error?.sqlState == "42P01")
      _ = try await pool.query("create table later as select 5 as n")
      let five = try await pool.number(query)
      #expect(five == 5)
    }
  }

  @Test func `a statement that occurs twice in a pipeline is prepared once`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      let results = try await pool.transaction(pipeline: (0..<5).map { "select \($0)::int as n" })
      #expect(try results.map { try $0[0].decode("n", as: Int.self) } == [0, 1, 2, 3, 4])
      let count = try await pool.number(
        "select count(*) from pg_prepared_statements where statement like 'select $1%'")
      #expect(count == 1)
    }
  }

  @Test func `BEGIN and COMMIT are prepared statements`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      for n in 0..<3 {
        try await pool.withTransaction { connection in
          try await connection.savepoint { _ = try await $0.query("select \(n)::int") }
          _ = try await connection.commit(after: ["select \(n)::int"])
        }
      }
      let rows = try await pool.query(
        "select statement from pg_prepared_statements where statement not like 'select %' order by 1")
      #expect(
        try rows.map { try $0.decode(0, as: String.self) } == [
          "begin isolation level read committed", "commit",
        ])
    }
  }

  @Test(arguments: ["begin isolation level read committed", "commit"])
  func
    `a foreign statement under the name of BEGIN or COMMIT fails the transaction and closes the connection`(
      word: String
    )
    async throws
  {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      func write() async throws {
        try await pool.withTransaction { connection in
          _ = try await connection.query("select count(*) from t")
          _ = try await connection.commit(after: ["insert into t values (1)"])
        }
      }
      _ = try await pool.query("create table t (n int)")
      try await write()
      let rows = try await pool.query(
        "select name from pg_prepared_statements where statement = \(word)::text")
      let name = try rows[0].decode(0, as: String.self)
      _ = try await pool.withConnection { connection in
        try await connection.execute(script: "deallocate \(name); prepare \(name) as select 1 where false")
      }
      let error = try await postgresError { try await write() }
      let tag = word == "commit" ? "COMMIT" : "BEGIN"
      #expect(error?.description.contains(tag) == true)
      // The second write was not committed, and its connection is closed; the third one works.
      try await write()
      let count = try await pool.number("select count(*) from t")
      #expect(count == 2)
    }
  }

  @Test func `a rollback to a savepoint keeps the work before and after it`() async throws {
    try await withPool { pool in
      _ = try await pool.query("create table t (n int unique)")
      try await pool.withTransaction { connection in
        try await connection.savepoint { _ = try await $0.query("insert into t values (1)") }
        let error = try await postgresError {
          try await connection.savepoint { connection in
            _ = try await connection.query("insert into t values (2)")
            try await connection.savepoint { _ = try await $0.query("insert into t values (3)") }
            _ = try await connection.query("insert into t values (1)")
          }
        }
        #expect(error?.sqlState == "23505")
        try await connection.savepoint { _ = try await $0.query("insert into t values (4)") }
      }
      let rows = try await pool.query("select n from t order by n")
      #expect(try rows.map { try $0.decode(0, as: Int.self) } == [1, 4])
    }
  }

  @Test func `a full statement cache evicts the least recently used statement`() {
    var cache = StatementCache(capacity: 2)
    let queries: [Query] = ["a", "b", "c"]
    let a = cache.insert(queries[0])
    let b = cache.insert(queries[1])
    #expect(cache.statement(for: queries[0]) === a)
    _ = cache.insert(queries[2])
    #expect(cache.statement(for: queries[1]) == nil)
    #expect(cache.takeEvicted() == [b.name])
    #expect(cache.takeEvicted() == [])
  }
}

/// The identity of a statement in the cache.
struct StatementTextTests {
  @Test func `a statement from the same source line with other values has the same identity and text`() {
    func query(_ n: Int, _ word: String) -> Query { "select \(n)::int, \(word)::text from \(unescaped: "t")" }
    #expect(query(1, "a").statement == query(2, "b").statement)
    #expect(query(1, "a").statement.hashValue == query(2, "b").statement.hashValue)
    #expect(query(1, "a").text == "select $1::int, $2::text from t")
  }

  @Test
  func `statements with different texts have different identities, and equal texts the same one`() {
    func query(_ column: String) -> Query { "select \(unescaped: column) from t" }
    let others: [Query] = [
      query("a"), query("b"), "select \(1) from t", "select \(1)\(2) from t", "select  from t\(1)", "", ";",
      Query(unescaped: "select a, b from t"),
    ]
    #expect(Set(others.map(\.statement)).count == others.count)
    #expect(query("a").statement == others[0].statement)
    #expect(query("a").statement == ("select a from t" as Query).statement)
  }

  @Test func `the placeholders of more than nine values are numbered in order`() {
    let query: Query = "\(1)\(2)\(3)\(4)\(5)\(6)\(7)\(8)\(9)\(10)\(11)"
    #expect(query.text == "$1$2$3$4$5$6$7$8$9$10$11")
  }

  @Test func `statements of the same length that were built from strings are distinct on the server`()
    async throws
  {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      for _ in 0..<2 {
        for n in 0..<10 {
          let answer = try await pool.number(Query(unescaped: "select \(n)"))
          #expect(answer == n)
        }
      }
    }
  }
}

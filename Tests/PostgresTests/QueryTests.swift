import Postgres
import TestDatabase
import Testing

struct QueryTests {
  @Test func `interpolated values are bound and never become SQL text`() {
    let name = "Robert'); drop table students; --"
    let query: Query = "select * from students where name = \(name) and year > \(2024)"
    #expect(query.text == "select * from students where name = $1 and year > $2")
    #expect(query.parameters.count == 2)
  }

  @Test func `an unescaped identifier becomes SQL text`() {
    let query: Query = "select * from \(unescaped: "students") where id = \(1)"
    #expect(query.text == "select * from students where id = $1")
  }

  @Test(arguments: [0, 1, 2, 64, 65, 200])
  func `a table of values has one row per value, and nil is NULL`(count: Int) async throws {
    func table(_ numbers: [Int]) -> Query {
      """
      SELECT new.*, \(true)::boolean FROM \(rows: numbers.count)
        \(each: numbers), \(each: numbers.map { $0 % 2 == 0 ? nil : "n\($0)" as String? }),
        \(each: numbers.map { [UInt8(truncatingIfNeeded: $0)] })))
      AS new (number, word, bytes) ORDER BY number
      """
    }
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let numbers = Array(1..<count + 1)
        let rows = try await pool.query(table(numbers))
        #expect(try rows.map { try $0.decode(0, as: Int.self) } == numbers)
        #expect(
          try rows.map { try $0.decode(1, as: String?.self) } == numbers.map { $0 % 2 == 0 ? nil : "n\($0)" })
        #expect(try rows.map { try $0.decode(2, as: [UInt8].self) } == numbers.map { [UInt8($0)] })
        let isTrue = try rows.allSatisfy { try $0.decode(3, as: Bool.self) }
        #expect(isTrue)
      }
    }
  }

  @Test func `a table of values with one row is sent as VALUES, also with NULL`() async throws {
    func table(_ words: [String?]) -> Query {
      "SELECT word FROM \(rows: words.count)\(each: words))) AS new (word)"
    }
    #expect(table(["a"]).text == "SELECT word FROM (VALUES ($1)) AS new (word)")
    #expect(
      table([String?](repeating: nil, count: 65)).text
        == "SELECT word FROM (SELECT * FROM unnest($1)) AS new (word)")
    #expect(
      table(["a", nil]).text
        == "SELECT word FROM unnest($1) AS given (place), LATERAL ((SELECT $2[given.place])) AS new (word)"
    )
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query(table([nil]))
        #expect(try rows.map { try $0.decode(0, as: String?.self) } == [nil])
      }
    }
  }

  @Test(arguments: [1, 3, 70])
  func `a table of values works beside a table with columns of the same names as its internals`(count: Int)
    async throws
  {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("CREATE TABLE odd (place int, given int, i int, new int)")
        let numbers = Array(1...count)
        _ = try await pool.query(
          """
          INSERT INTO odd SELECT new.*, 0 FROM \(rows: count)
            \(each: numbers), \(each: numbers.map { $0 * 10 }), \(each: numbers.map { $0 * 100 }))) AS new
          """)
        _ = try await pool.query(
          """
          UPDATE odd SET new = new.sum FROM \(rows: count)\(each: numbers), \(each: numbers.map { $0 * 111 })))
            AS new (key, sum)
          WHERE odd.place = new.key AND given = 10 * new.key
          """)
        let rows = try await pool.query("SELECT place + given + i, new FROM odd ORDER BY place")
        #expect(try rows.map { try $0.decode(0, as: Int.self) } == numbers.map { $0 * 111 })
        #expect(try rows.map { try $0.decode(1, as: Int.self) } == numbers.map { $0 * 111 })
      }
    }
  }

  @Test func `a union has the rows and the values of all its parts`() async throws {
    func part(_ number: Int?, _ word: String) -> Query {
      "select \(number)::int as n, \(word)::text || \(unescaped: "'!'") as w"
    }
    let union = Query.union(all: [part(1, "a"), part(nil, "b"), part(3, "c")])
    #expect(union.text.hasSuffix("UNION ALL select $5::int as n, $6::text || '!' as w"))
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query(union)
        #expect(try rows.map { try $0.decode(0, as: Int?.self) } == [1, nil, 3])
        #expect(try rows.map { try $0.decode(1, as: String.self) } == ["a!", "b!", "c!"])
      }
    }
  }

  @Test func `a query returns its rows by column name and by index`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query("select n, n * 2 as twice from generate_series(1, \(3)) n")
        #expect(try rows.map { try $0.decode("twice", as: Int.self) } == [2, 4, 6])
        #expect(try rows.map { try $0.decode(0, as: Int.self) } == [1, 2, 3])
        #expect(rows.columns == ["n", "twice"])
      }
    }
  }

  @Test func `a statement returns the number of affected rows`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let created = try await pool.query("create table t (n int)")
        let inserted = try await pool.query("insert into t select generate_series(1, 12)")
        let updated = try await pool.query("update t set n = 0 where n <= 5")
        let deleted = try await pool.query("delete from t")
        #expect([created, inserted, updated, deleted].map(\.affected) == [0, 12, 5, 12])
      }
    }
  }

  @Test func `a decoding error names the column`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query("select null::text as nothing, 'x' as word, 300000::bigint as big")
        let row = try #require(rows.first)
        func reason<T: PostgresDecodable>(_ column: String, _ type: T.Type) -> String {
          do {
            _ = try row.decode(column, as: type)
            return ""
          } catch {
            return "\(error)"
          }
        }
        #expect(reason("nothing", String.self) == #"column "nothing" is NULL and cannot be read as String"#)
        #expect(reason("word", Int.self) == #"column "word" is text and cannot be read as Int"#)
        #expect(reason("missing", Int.self) == #"the result has no column "missing""#)
        #expect(try row.decode("nothing", as: String?.self) == nil)
      }
    }
  }

  @Test func `queries work without prepared statements, and none is prepared`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.usesPreparedStatements = false
      } _: { pool in
        for n in 1...3 {
          let rows = try await pool.query("select \(n)::int as n, \("x")::text as x")
          #expect(try rows.first?.decode("n", as: Int.self) == n)
        }
        let prepared = try await pool.query("select count(*) as n from pg_prepared_statements")
        #expect(try prepared.first?.decode("n", as: Int.self) == 0)
      }
    }
  }
}

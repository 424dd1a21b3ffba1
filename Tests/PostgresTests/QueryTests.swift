import Foundation
import Postgres
import TestDatabase
import Testing

struct QueryTests {
  @Test func `a query answers its rows`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let rows = try await pool.query("select n, n * 2 as twice from generate_series(1, \(3)) n")
        #expect(try rows.map { try $0.decode("twice", as: Int.self) } == [2, 4, 6])
        #expect(rows.columns == ["n", "twice"])
        #expect(rows.affected == 3)
      }
    }
  }
}

import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The limits of the role `receiptd_numbers`, on a plain database and on Supabase.
@Suite struct NumbersRoleTests {
  @Test func `receiptd_numbers reads the figures and nothing else on a plain database`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { try await Self.check($0) }
    }
  }

  @Test func `receiptd_numbers reads the figures and nothing else on Supabase`() async throws {
    try await Supabase.with(.own) { try await Self.check($0.pool) }
  }

  private static func check(_ pool: PostgresPool) async throws {
    let relations = try await pool.query(
      """
      SELECT relname::text AS name FROM pg_class
      WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p', 'v') ORDER BY 1
      """
    ).map { try $0.decode("name", as: String.self) }
    #expect(relations.count > 30)
    _ = try await pool.query(
      "INSERT INTO kpi_days (day, as_of, computed_at) VALUES ('2026-01-01', now(), now())")
    try await pool.withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE receiptd_numbers")
      // A policy, too, must show the rows.
      #expect(try await connection.query("SELECT FROM kpi_days").count == 1)
      for relation in relations {
        let isFigures = relation.hasPrefix("kpi_")
        if isFigures { _ = try await connection.query("SELECT * FROM \(unescaped: relation)") }
        var statements = ["DELETE FROM \(relation)"]
        if !isFigures { statements.append("SELECT * FROM \(relation)") }
        for statement in statements {
          let error = await #expect(throws: PostgresError.self, "\(statement)") {
            try await connection.savepoint { connection in
              _ = try await connection.query(Query(unescaped: statement))
            }
          }
          #expect(["42501", "55000"].contains(error?.sqlState ?? ""), "\(statement)")
        }
      }
    }
  }
}

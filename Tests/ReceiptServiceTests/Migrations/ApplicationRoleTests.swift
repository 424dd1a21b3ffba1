import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The limits of the role `receiptd_app`.
@Suite struct ApplicationRoleTests {
  private static let tables: Query = """
    SELECT relname::text FROM pg_class
    WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p') ORDER BY 1
    """

  /// Runs a test with a pool of the owner and one of the role.
  private static func withRole(_ body: (PostgresPool, PostgresPool) async throws -> Void) async throws {
    try await Supabase.with(.own) { supabase in
      let role = PostgresPool(
        configuration: try PostgresConfiguration(
          uri: supabase.database.uri(role: "receiptd_app"), applicationName: "tests"))
      do {
        try await body(supabase.pool, role)
      } catch {
        await role.close()
        throw error
      }
      await role.close()
    }
  }

  /// Whether a statement is refused for a missing privilege.
  private static func isRefused(_ statement: String, on pool: PostgresPool) async throws -> Bool {
    do {
      _ = try await pool.query(Query(unescaped: statement))
      return false
    } catch let error as PostgresError {
      #expect(error.sqlState == "42501", "\(statement): \(error)")
      return error.sqlState == "42501"
    }
  }

  @Test func `receiptd_app cannot alter, drop or truncate a table, or add a trigger or a policy`()
    async throws
  {
    try await Self.withRole { owner, role in
      let tables = try await owner.query(Self.tables).map { try $0.decode("relname", as: String.self) }
      #expect(tables.count > 20)
      for table in tables {
        for statement in [
          "ALTER TABLE \(table) ADD COLUMN x int", "ALTER TABLE \(table) DISABLE ROW LEVEL SECURITY",
          "ALTER TABLE \(table) OWNER TO receiptd_app", "ALTER TABLE \(table) DISABLE TRIGGER ALL",
          "DROP TABLE \(table) CASCADE", "TRUNCATE \(table) CASCADE", "CREATE INDEX ON \(table) ((1))",
          "CREATE TRIGGER t BEFORE INSERT ON \(table) EXECUTE FUNCTION receiptd_guard_profiles()",
          "CREATE POLICY p ON \(table) USING (true)", "GRANT SELECT ON \(table) TO anon",
        ] {
          // GRANT without the grant option is an error only for a role without any privilege.
          if statement.hasPrefix("GRANT") {
            _ = try? await role.query(Query(unescaped: statement))
          } else {
            #expect(try await Self.isRefused(statement, on: role), "\(statement)")
          }
        }
      }
      let opened = try await owner.query(
        "SELECT relname::text FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind = 'r' AND relname NOT IN ('profiles', 'user_preferences') AND has_table_privilege('anon', oid, 'SELECT')"
      )
      #expect(opened.isEmpty)
    }
  }

  @Test func `receiptd_app cannot change or delete records, and cannot read other tables`()
    async throws
  {
    try await Self.withRole { _, role in
      for statement in [
        "DELETE FROM support_actions", "UPDATE support_actions SET by = 'nobody'",
        "DELETE FROM reconcile_runs",
        "UPDATE reconcile_runs SET error = NULL", "DELETE FROM notifications", "DELETE FROM transactions",
        "DELETE FROM subscriptions", "DELETE FROM grants", "DELETE FROM trials", "DELETE FROM jws_headers",
        "UPDATE jws_headers SET header = ''", "DELETE FROM entitlement_keys", "UPDATE events SET name = 'x'",
        "INSERT INTO schema_migrations DEFAULT VALUES", "DELETE FROM schema_migrations",
        "UPDATE schema_migrations SET name = 'x'", "SELECT username FROM profiles", "SELECT * FROM profiles",
        "UPDATE profiles SET username = 'x'", "UPDATE profiles SET id = gen_random_uuid()",
        "DELETE FROM profiles", "DELETE FROM user_preferences", "SELECT email FROM auth.users",
        "SELECT * FROM pg_authid", "SELECT receiptd_open_to_application()", "SET ROLE service_role",
        "SELECT setval('outbox_changes', 1)", "COPY (SELECT 1) TO PROGRAM 'true'",
      ] {
        let isRefused = try await Self.isRefused(statement, on: role)
        #expect(isRefused, "\(statement)")
      }
    }
  }

  @Test func `receiptd_app can read every table and all of its rows`() async throws {
    try await Self.withRole { owner, role in
      let forgotten = try await owner.query(
        """
        SELECT relname::text FROM pg_class
        WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p')
          AND NOT has_any_column_privilege('receiptd_app', oid, 'SELECT')
        """
      ).map { try $0.decode("relname", as: String.self) }
      #expect(forgotten == [])
      let hidden = try await role.query(
        """
        SELECT guarded::text FROM (
          SELECT oid::regclass AS guarded FROM pg_class
          WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p')) AS tables
        WHERE \(unescaped: Doctor.hidesRows)
        """
      ).map { try $0.decode("guarded", as: String.self) }
      #expect(hidden == [])
    }
  }

  @Test func `a second call of the privileges function restores changed privileges`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      func failures() async -> [String] {
        var lines: [String] = []
        _ = await Doctor(environment: harness.environment).check { if !$0.isOK { lines.append($0.line) } }
        return lines
      }
      #expect(await failures() == [])
      _ = try await harness.pool.query("REVOKE INSERT ON support_actions FROM receiptd_app")
      _ = try await harness.pool.query("REVOKE UPDATE (is_premium) ON user_preferences FROM receiptd_app")
      _ = try await harness.pool.query("GRANT DELETE ON transactions TO receiptd_app")
      _ = try await harness.pool.query(
        "REVOKE EXECUTE ON FUNCTION receiptd_forget_transactions(integer) FROM receiptd_app")
      let lines = await failures()
      #expect(
        lines.contains { $0.contains("privileges: the role lacks support_actions (INSERT) and 1 more") })
      #expect(lines.contains { $0.contains("table user_preferences: the role lacks privileges to write it") })
      _ = try await harness.pool.query("SELECT receiptd_open_to_application()")
      #expect(await failures() == [])
      let extra = try await harness.pool.query(
        "SELECT has_table_privilege('receiptd_app', 'transactions', 'DELETE') AS may_delete")[0]
      #expect(try extra.decode("may_delete", as: Bool.self) == false)

      _ = try await harness.pool.query("ALTER TABLE profiles ENABLE ROW LEVEL SECURITY")
      #expect(await failures() == [])
      _ = try await harness.pool.query("DROP POLICY \"receiptd serves\" ON profiles")
      #expect(await failures().contains { $0.contains("table profiles: row level security hides") })
    }
  }

  @Test func `a server with the role receiptd_app does not migrate and names the role that must`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      #expect(try await harness.service.migrator.apply().isEmpty)
      _ = try await harness.pool.query(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
      let ready = try await harness.send(.get, "/readyz", to: harness.adminAddress)
      #expect(ready.status == 503)
      #expect(ready.string("database") == "migrations are pending")
      await #expect(throws: MigrationError.self) { try await harness.service.migrator.apply() }
    }
  }
}

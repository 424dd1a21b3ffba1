import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// What each role may read and write, column by column, against the lists in `Fixtures/Rights`.
///
/// A new table, view, column or function fails these tests until a list has it: decide there which role needs it.
@Suite struct RoleRightsTests {
  @Test(arguments: ["receiptd_app", "receiptd_support", "receiptd_numbers"])
  func `a role of receiptd has the listed rights on a plain database and on Supabase`(role: String)
    async throws
  {
    let listed = try Self.listed(role)
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { Self.expect(try await Self.rights(of: role, $0), listed) }
    }
    try await Supabase.with(.own) { Self.expect(try await Self.rights(of: role, $0.pool), listed) }
  }

  @Test(arguments: ["anon", "authenticated", "service_role"])
  func `a role of Supabase has the listed rights`(role: String) async throws {
    let listed = try Self.listed(role == "service_role" ? role : "clients")
    try await Supabase.with(.own) { Self.expect(try await Self.rights(of: role, $0.pool), listed) }
  }

  @Test func `PUBLIC has no right, also on functions`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { Self.expect(try await Self.rights(of: "public", $0), []) }
    }
    try await Supabase.with(.own) { Self.expect(try await Self.rights(of: "public", $0.pool), []) }
  }

  @Test func `rights that the former migrations and repeated grants gave are revoked`() async throws {
    try await Supabase.with(.own) { supabase in
      for role in ["receiptd_support", "receiptd_numbers", "anon", "authenticated", "service_role"] {
        try await LiveTables.run(
          """
          GRANT ALL ON ALL TABLES IN SCHEMA public TO \(role), PUBLIC;
          GRANT ALL ON ALL FUNCTIONS IN SCHEMA public TO \(role), PUBLIC;
          GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \(role), PUBLIC;
          """, on: supabase.pool)
      }
      try await LiveTables.run(
        """
        ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO receiptd_support;
        ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO receiptd_numbers;
        REVOKE ALL ON profiles, user_preferences FROM PUBLIC;
        SELECT receiptd_set_rights();
        """, on: supabase.pool)
      for role in ["receiptd_support", "receiptd_numbers", "service_role"] {
        Self.expect(try await Self.rights(of: role, supabase.pool), try Self.listed(role))
      }
      for role in ["anon", "authenticated"] {
        Self.expect(try await Self.rights(of: role, supabase.pool), try Self.listed("clients"))
      }
      Self.expect(try await Self.rights(of: "public", supabase.pool), [])
      try await LiveTables.run("CREATE TABLE later (secret text)", on: supabase.pool)
      for role in ["receiptd_support", "receiptd_numbers"] {
        let later = try await supabase.pool.query(
          "SELECT has_table_privilege(\(role), 'later', 'SELECT') AS may")[0]
        #expect(try !later.decode("may", as: Bool.self))
      }
    }
  }

  @Test func `rights on further columns of the app's own tables stay`() async throws {
    try await Supabase.with(.own) { supabase in
      let before = try await Self.rights(of: "receiptd_support", supabase.pool)
      try await LiveTables.run(
        "GRANT SELECT (username) ON profiles TO receiptd_support; SELECT receiptd_set_rights()",
        on: supabase.pool)
      let added = Set(try await Self.rights(of: "receiptd_support", supabase.pool)).subtracting(before)
      #expect(added.count == 1)
      #expect(added.first?.contains("username") == true)
    }
  }

  @Test func `a second call takes no exclusive lock and changes nothing`() async throws {
    try await Supabase.with(.own) { supabase in
      let locks = try await supabase.pool.withTransaction { connection in
        _ = try await connection.query("SELECT receiptd_set_rights()")
        return try await connection.query(
          """
          SELECT l.relation::regclass::text AS name FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
          WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock' AND c.relnamespace = 'public'::regnamespace
          """
        ).map { try $0.decode("name", as: String.self) }
      }
      #expect(locks == [])
    }
  }

  @Test func `a role as which PostgREST acts for clients has no right on receiptd's tables`() async throws {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        """
        DO $roles$ DECLARE definition text; BEGIN
          FOREACH definition IN ARRAY ARRAY['authenticator LOGIN NOINHERIT', 'receiptdtest_member'] LOOP
            BEGIN EXECUTE 'CREATE ROLE ' || definition;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
          END LOOP;
          GRANT receiptdtest_member TO authenticator;
        EXCEPTION WHEN OTHERS THEN NULL;
        END $roles$;
        GRANT ALL ON ALL TABLES IN SCHEMA public TO receiptdtest_member;
        SELECT receiptd_set_rights();
        """, on: supabase.pool)
      let kept = try await Self.rights(of: "receiptdtest_member", supabase.pool)
      #expect(kept.allSatisfy { $0.hasPrefix("profiles: ") || $0.hasPrefix("user_preferences: ") })
    }
  }

  // MARK: Reading

  /// Compares two lists by line, so that a failure names the lines.
  private static func expect(
    _ found: [String], _ listed: [String], sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(found.filter { !listed.contains($0) } == [], "not listed", sourceLocation: sourceLocation)
    #expect(listed.filter { !found.contains($0) } == [], "listed only", sourceLocation: sourceLocation)
  }

  /// The lines of a list. Indented lines continue the line before; `#` begins a comment.
  private static func listed(_ role: String) throws -> [String] {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../Fixtures/Rights/\(role).txt").standardizedFileURL.path
    var lines: [String] = []
    for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
    where !line.hasPrefix("#") {
      if line.hasPrefix(" "), let last = lines.popLast() {
        lines.append("\(last) \(line.drop { $0 == " " })")
      } else {
        lines.append(String(line))
      }
    }
    return lines
  }

  /// The rights of a role in `public`: a line for each relation and set of columns, such as `trials: SELECT: id device_id`.
  private static func rights(of role: String, _ pool: PostgresPool) async throws -> [String] {
    try await pool.query(
      """
      WITH relations AS (
        SELECT oid, relname, relkind FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S'))
      SELECT relname || ': ' || string_agg(privilege, ', ' ORDER BY n) || coalesce(': ' || columns, '') AS line FROM (
        SELECT c.relname, p.n, p.privilege, string_agg(a.attname, ' ' ORDER BY a.attname) AS columns
        FROM relations c
        CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) WITH ORDINALITY AS p (privilege, n)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind <> 'S' AND has_column_privilege(\(role)::name, c.oid, a.attnum, p.privilege)
        GROUP BY c.relname, p.n, p.privilege
        UNION ALL
        SELECT c.relname, p.n + 4, p.privilege, NULL FROM relations c
        CROSS JOIN unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER']) WITH ORDINALITY AS p (privilege, n)
        WHERE c.relkind <> 'S' AND has_table_privilege(\(role)::name, c.oid, p.privilege)
        UNION ALL
        SELECT c.relname, p.n, p.privilege, NULL FROM relations c
        CROSS JOIN unnest(ARRAY['SELECT', 'USAGE', 'UPDATE']) WITH ORDINALITY AS p (privilege, n)
        WHERE c.relkind = 'S' AND has_sequence_privilege(\(role)::name, c.oid, p.privilege)
      ) AS rights GROUP BY relname, columns
      UNION ALL
      SELECT 'function ' || oid::regprocedure FROM pg_proc
      WHERE pronamespace = 'public'::regnamespace AND has_function_privilege(\(role)::name, oid, 'EXECUTE')
      ORDER BY 1
      """
    ).map { try $0.decode("line", as: String.self) }
  }
}

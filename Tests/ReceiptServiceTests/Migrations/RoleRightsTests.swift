import Foundation
import Platform
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

  /// Conditions of triggers call the first with the rights of the statement's role.
  private static let decisions = [
    "function receiptd_writes_premium(regclass,name,boolean)",
    "function receiptd_writes_premium(regclass,text)",
  ]

  @Test func `PUBLIC may run the functions that the guards ask, and nothing else`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool {
        Self.expect(try await Self.rights(of: "public", $0), Self.decisions)
      }
    }
    try await Supabase.with(.own) {
      Self.expect(try await Self.rights(of: "public", $0.pool), Self.decisions)
    }
  }

  @Test func `rights that the former migrations and repeated grants gave are revoked`() async throws {
    try await Supabase.with(.own) { supabase in
      for role in ["receiptd_support", "receiptd_numbers", "anon", "authenticated", "service_role"] {
        try await LiveTables.run(
          """
          GRANT ALL ON ALL TABLES IN SCHEMA public, receiptd TO \(role), PUBLIC;
          GRANT ALL ON ALL FUNCTIONS IN SCHEMA public, receiptd TO \(role), PUBLIC;
          GRANT ALL ON ALL SEQUENCES IN SCHEMA public, receiptd TO \(role), PUBLIC;
          """, on: supabase.pool)
      }
      try await LiveTables.run(
        """
        ALTER DEFAULT PRIVILEGES IN SCHEMA public, receiptd GRANT SELECT ON TABLES TO receiptd_support;
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
      Self.expect(try await Self.rights(of: "public", supabase.pool), Self.decisions)
      for schema in ["public", "receiptd"] {
        try await LiveTables.run("CREATE TABLE \(schema).later (secret text)", on: supabase.pool)
        for role in ["receiptd_support", "receiptd_numbers"] {
          let later = try await supabase.pool.query(
            "SELECT has_table_privilege(\(role), \(schema + ".later"), 'SELECT') AS may")[0]
          #expect(try !later.decode("may", as: Bool.self))
        }
      }
    }
  }

  @Test func `PUBLIC loses the rights on the app's own tables that no policy or trigger limits`() async throws
  {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        "GRANT ALL ON profiles, user_preferences TO PUBLIC; SELECT receiptd_set_rights()", on: supabase.pool)
      for table in ["profiles", "user_preferences"] {
        let rights = try await supabase.pool.query(
          """
          SELECT granted.privilege_type AS name FROM pg_class c, aclexplode(c.relacl) AS granted
          WHERE c.oid = to_regclass('public.' || \(table)) AND granted.grantee = 0
            AND granted.privilege_type <> 'MAINTAIN'
          ORDER BY 1
          """
        ).map { try $0.decode("name", as: String.self) }
        #expect(rights == ["DELETE", "INSERT", "SELECT", "UPDATE"], "\(table)")
      }
    }
  }

  @Test(arguments: ["public", "receiptd"])
  func `PUBLIC, clients and receiptd's roles cannot create functions that a server would run`(schema: String)
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let roles = ["public", "receiptd_app", "receiptd_support", "receiptd_numbers", "anon", "authenticated"]
      func creators() async throws -> [String] {
        try await supabase.pool.query(
          """
          SELECT name FROM unnest(\(roles)::text[]) WITH ORDINALITY AS role (name, n)
          WHERE has_schema_privilege(name::name, \(schema), 'CREATE') ORDER BY n
          """
        ).map { try $0.decode("name", as: String.self) }
      }
      #expect(try await creators() == [])
      try await LiveTables.run(
        """
        GRANT CREATE ON SCHEMA \(schema) TO \(roles.joined(separator: ", "));
        ALTER DEFAULT PRIVILEGES IN SCHEMA \(schema) GRANT ALL ON FUNCTIONS TO receiptd_support;
        ALTER DEFAULT PRIVILEGES IN SCHEMA \(schema) GRANT ALL ON SEQUENCES TO receiptd_numbers;
        """, on: supabase.pool)
      #expect(try await creators() == roles)
      _ = try await supabase.pool.query("SELECT receiptd_set_rights()")
      #expect(try await creators() == [])
      let defaults = try await supabase.pool.query(
        "SELECT 1 FROM pg_default_acl WHERE defaclacl::text ~ 'receiptd_(support|numbers)'")
      #expect(defaults.isEmpty)
    }
  }

  @Test func `a right of service_role on a secret column alone is revoked`() async throws {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        """
        REVOKE SELECT ON notifications, jws_headers FROM service_role;
        GRANT SELECT (outcome, envelope_signature) ON notifications TO service_role;
        GRANT SELECT (header) ON jws_headers TO service_role;
        SELECT receiptd_set_rights();
        """, on: supabase.pool)
      let rights = try await Self.rights(of: "service_role", supabase.pool)
      #expect(
        rights.filter {
          $0.contains("SELECT") && ($0.hasPrefix("notifications:") || $0.hasPrefix("jws_headers:"))
        }
          == ["notifications: SELECT: outcome"])
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
          WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock' AND c.relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace)
          """
        ).map { try $0.decode("name", as: String.self) }
      }
      #expect(locks == [])
    }
  }

  @Test
  func
    `where all is as wanted, the migration of rights goes through beside a transaction that writes every table`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      _ = try await supabase.pool.query("DELETE FROM schema_migrations WHERE version = '20261126'")
      try await supabase.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL idle_in_transaction_session_timeout = 0")
        _ = try await connection.query(
          """
          DO $$ DECLARE name text; BEGIN
            FOR name IN SELECT relation FROM receiptd_rights() LOOP
              EXECUTE format('LOCK TABLE %I IN ROW EXCLUSIVE MODE', name);
            END LOOP;
          END $$
          """)
        // Also a lock that is released at once, which pg_locks no longer shows, would not be granted.
        let applied = try await Self.impatient(supabase.pool).apply()
        #expect(applied.map(\.version) == ["20261126"])
      }
    }
  }

  @Test func `a transaction that writes one table delays the rights on that table alone`() async throws {
    try await Supabase.with(.own) { supabase in
      let pool = supabase.pool
      try await LiveTables.run(
        """
        DO $$ DECLARE found record; BEGIN
          FOR found IN SELECT polname, polrelid::regclass AS target FROM pg_policy WHERE polname LIKE 'receiptd %' LOOP
            EXECUTE format('DROP POLICY %I ON %s', found.polname, found.target);
          END LOOP;
        END $$;
        DELETE FROM schema_migrations WHERE version = '20261126';
        """, on: pool)
      let tables = try await Self.tablesWithoutPolicy(pool)
      #expect(tables.count > 40)
      try await pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL idle_in_transaction_session_timeout = 0")
        _ = try await connection.query("LOCK TABLE events IN ROW EXCLUSIVE MODE")
        let error = await #expect(throws: MigrationError.self) { try await Self.impatient(pool).apply() }
        #expect(error?.description.contains("another transaction uses the table") == true)
        // The tables before it in the file are done.
        let left = try await Self.tablesWithoutPolicy(pool)
        #expect(left.contains("events") && !left.contains("subscriptions"), "\(left)")
        for table in left where table != "events" {
          _ = try await pool.query("SELECT receiptd_set_rights(\(table))")
        }
        #expect(try await Self.tablesWithoutPolicy(pool) == ["events"])
      }
      #expect(try await Self.impatient(pool).apply().map(\.version) == ["20261126"])
      #expect(try await Self.tablesWithoutPolicy(pool) == [])
    }
  }

  @Test func `each table and view gets its rights in a migration's transaction of its own`() async throws {
    let files = try FileManager.default.contentsOfDirectory(atPath: Harness.migrations)
      .filter { $0.hasSuffix(".sql") }
    let steps = try files.flatMap { file in
      try String(contentsOfFile: Harness.migrations + "/" + file, encoding: .utf8)
        .components(separatedBy: "\n-- migrate: new transaction\n")
    }.map { step in step.matches(of: /SELECT public\.receiptd_set_rights\('(\w+)'\);/).map { String($0.1) } }
    #expect(steps.filter { $0.count > 1 } == [])
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let relations = try await database.withPool { pool in
        try await pool.query("SELECT relation FROM receiptd_rights()").map {
          try $0.decode("relation", as: String.self)
        }
      }
      #expect(relations.count > 50)
      #expect(Set(relations).subtracting(steps.joined()).sorted() == [])
    }
  }

  @Test func `a right that another role passed on is revoked, with the option to do so`() async throws {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_other;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        GRANT USAGE ON SCHEMA receiptd TO receiptdtest_other;
        GRANT SELECT ON trials TO receiptd_support WITH GRANT OPTION;
        GRANT SELECT (outcome) ON notifications TO receiptd_numbers WITH GRANT OPTION;
        GRANT USAGE ON SEQUENCE outbox_changes TO receiptd_support WITH GRANT OPTION;
        GRANT EXECUTE ON FUNCTION receiptd_rights() TO receiptd_numbers WITH GRANT OPTION;
        GRANT DELETE ON grants TO receiptdtest_other WITH GRANT OPTION;
        GRANT EXECUTE ON FUNCTION receiptd_open_to_application() TO receiptdtest_other;
        SET ROLE receiptd_support;
        GRANT SELECT ON trials TO receiptdtest_other;
        GRANT USAGE ON SEQUENCE outbox_changes TO receiptdtest_other;
        SET ROLE receiptd_numbers;
        GRANT SELECT (outcome) ON notifications TO receiptdtest_other;
        GRANT EXECUTE ON FUNCTION receiptd_rights() TO receiptdtest_other;
        SET ROLE receiptdtest_other;
        GRANT DELETE ON grants TO anon, receiptd_support;
        RESET ROLE;
        SELECT receiptd_set_rights();
        """, on: supabase.pool)
      for role in ["receiptd_support", "receiptd_numbers"] {
        Self.expect(try await Self.rights(of: role, supabase.pool), try Self.listed(role))
      }
      Self.expect(try await Self.rights(of: "anon", supabase.pool), try Self.listed("clients"))
      // A right on a table that the owner gave to a role that receiptd does not know stays, and cannot be passed on.
      // Functions run with the owner's rights, so no such role keeps one.
      Self.expect(
        try await Self.rights(of: "receiptdtest_other", supabase.pool), Self.decisions + ["grants: DELETE"])
      let option = try await supabase.pool.query(
        "SELECT has_table_privilege('receiptdtest_other', 'grants', 'DELETE WITH GRANT OPTION') AS may")[0]
      #expect(try !option.decode("may", as: Bool.self))
    }
  }

  @Test func `a role as which PostgREST acts for clients has no right on receiptd's tables`() async throws {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        """
        \(Supabase.member)
        GRANT ALL ON ALL TABLES IN SCHEMA public, receiptd TO receiptdtest_member;
        SELECT receiptd_set_rights();
        """, on: supabase.pool)
      let kept = try await Self.rights(of: "receiptdtest_member", supabase.pool)
      #expect(
        kept.allSatisfy {
          $0.hasPrefix("profiles: ") || $0.hasPrefix("user_preferences: ") || Self.decisions.contains($0)
        })
    }
  }

  // MARK: Migrating

  /// A migrator that gives up a table that is in use after less than a second.
  private static func impatient(_ pool: PostgresPool) -> Migrator {
    Migrator(
      pool: pool, folder: Harness.migrations, lockTimeout: .milliseconds(10),
      retry: Backoff(base: .zero, maximum: .zero, jitter: 0))
  }

  /// The tables without the policy for servers.
  private static func tablesWithoutPolicy(_ pool: PostgresPool) async throws -> [String] {
    try await pool.query(
      """
      SELECT r.relation AS name FROM receiptd_rights() r JOIN pg_class c ON c.oid = receiptd_relation(r.relation)
      WHERE c.relkind IN ('r', 'p')
        AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'receiptd serves')
      ORDER BY 1
      """
    ).map { try $0.decode("name", as: String.self) }
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

  /// The rights of a role in `receiptd` and `public`: a line for each relation and set of columns, such as `trials:
  /// SELECT: id device_id`.
  private static func rights(of role: String, _ pool: PostgresPool) async throws -> [String] {
    try await pool.query(
      """
      WITH relations AS (
        SELECT oid, CASE WHEN relname = 'schema_migrations' AND relkind = 'v' THEN 'public.' ELSE '' END || relname AS relname,
          relkind
        FROM pg_class
        WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S'))
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
      WHERE pronamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND has_function_privilege(\(role)::name, oid, 'EXECUTE')
      ORDER BY 1
      """
    ).map { try $0.decode("line", as: String.self) }
  }
}

import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The privileges of each Supabase role, tested with SET ROLE.
@Suite struct SupabaseTests {
  /// The app's own tables, which its clients use.
  private static let apps: Set = ["profiles", "user_preferences"]
  /// The tables that only the server reads.
  private static let secret: Set = [
    "console_sessions", "entitlement_keys", "device_secrets", "log_keys", "pairing_codes", "people_tokens",
  ]
  /// The tables of which only the server reads some columns; `RoleRightsTests` checks each column.
  private static let partlySecret: Set = ["notifications", "jws_headers"]

  private struct Relation {
    var name: String
    var kind: String
    var columns: [String]
  }

  /// All relations in `receiptd` and `public` except the app's own tables, also those of future migrations.
  ///
  /// Opens the schema `receiptd` to clients, so that their rights on each relation count.
  private func own(_ supabase: Supabase) async throws -> [Relation] {
    _ = try await supabase.pool.query("GRANT USAGE ON SCHEMA receiptd TO anon, authenticated")
    return try await supabase.pool.query(
      """
      SELECT c.relname::text AS name, c.relkind::text AS kind, ARRAY(
        SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attidentity = ''
        ORDER BY attnum) AS columns
      FROM pg_class c
      WHERE c.relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
      ORDER BY c.relname
      """
    ).map {
      Relation(name: try $0.decode("name"), kind: try $0.decode("kind"), columns: try $0.decode("columns"))
    }
    .filter { !Self.apps.contains($0.name) }
  }

  @Test func `no Supabase client can read or write a table, view or sequence of receiptd`() async throws {
    try await Supabase.with(.own) { supabase in
      let relations = try await own(supabase)
      #expect(relations.count > 20)
      for caller in [Supabase.Caller.anon, .authenticated(supabase.users[0])] {
        for relation in relations {
          let (name, column) = (relation.name, relation.columns[0])
          let statements =
            relation.kind == "S"
            ? ["SELECT nextval('\(name)')", "SELECT setval('\(name)', 1)", "SELECT * FROM \(name)"]
            : ["SELECT * FROM \(name)", "SELECT count(*) FROM \(name)", "SELECT \(column) FROM \(name)"]
          for statement in statements {
            #expect(try await supabase.isRefused(statement, as: caller), "\(caller): \(statement)")
          }
          guard relation.kind == "r" else { continue }
          for statement in [
            "INSERT INTO \(name) DEFAULT VALUES", "UPDATE \(name) SET \(column) = NULL",
            "DELETE FROM \(name)", "TRUNCATE \(name) CASCADE", "LOCK TABLE \(name)",
            "INSERT INTO \(name) DEFAULT VALUES ON CONFLICT DO NOTHING",
          ] {
            #expect(try await supabase.isRefused(statement, as: caller), "\(caller): \(statement)")
          }
        }
      }
    }
  }

  @Test func `row level security hides receiptd's tables from Supabase clients even after GRANT ALL`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      _ = try await supabase.pool.query(
        "INSERT INTO subscriptions (original_transaction_id, bundle_id) VALUES ('1', 'com.example')")
      _ = try await supabase.pool.query(
        "GRANT ALL ON ALL TABLES IN SCHEMA public, receiptd TO anon, authenticated")
      for caller in [Supabase.Caller.anon, .authenticated(supabase.users[0])] {
        for relation in try await own(supabase) where relation.kind != "S" {
          let rows = try await supabase.run("SELECT * FROM \(relation.name)", as: caller)
          #expect(rows?.isEmpty ?? true, "\(caller): \(relation.name)")
          guard relation.kind == "r" else { continue }
          let deleted = try await supabase.run("DELETE FROM \(relation.name)", as: caller)
          #expect(deleted?.affected ?? 0 == 0, "\(caller): \(relation.name)")
        }
      }
      #expect(try await supabase.pool.query("SELECT 1 FROM subscriptions").count == 1)
    }
  }

  @Test func `every view uses its reader's privileges, and every table has row level security`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let open = try await supabase.pool.query(
        """
        SELECT relname::text FROM pg_class
        WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND (
          relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY(reloptions), false)
          OR relkind IN ('r', 'p') AND NOT relrowsecurity)
        """
      ).map { try $0.decode("relname", as: String.self) }
      #expect(open == [])
    }
  }

  /// The conditions of the triggers ask `receiptd_writes_premium` with the rights of the statement's role. It tells of
  /// a role what `pg_roles` tells, and whether it is in `premiumWriters`.
  @Test func `no Supabase client can run a function of receiptd but the one that its triggers ask`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let functions = try await supabase.pool.query(
        """
        SELECT p.oid::regprocedure::text AS name, role.name AS role,
          has_function_privilege(role.name, p.oid, 'EXECUTE') AS is_executable
        FROM pg_proc p, unnest(ARRAY['anon', 'authenticated', 'public']) AS role (name)
        WHERE p.pronamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND p.proname <> 'receiptd_writes_premium'
        """)
      #expect(functions.count >= 3)
      for row in functions {
        let name = try row.decode("name", as: String.self)
        #expect(try row.decode("is_executable", as: Bool.self) == false, "\(name)")
      }
    }
  }

  @Test func `no statement makes a Supabase client premium`() async throws {
    try await Supabase.with(.own) { supabase in
      let user = supabase.users[0]
      let id = "'\(user.uuidString.lowercased())'"
      let caller = Supabase.Caller.authenticated(user)
      let premium = [
        "premium_expires_at = now() + interval '9 years'", "premium_product_id = 'forged'",
        "premium_original_transaction_id = 'forged'", "premium_expires_at = NULL",
        "username = 'x', premium_product_id = 'forged'",
      ]
      for change in premium {
        for statement in [
          "UPDATE profiles SET \(change)", "UPDATE profiles SET \(change) WHERE id = \(id)",
          "INSERT INTO profiles (id) VALUES (\(id)) ON CONFLICT (id) DO UPDATE SET \(change)",
        ] {
          #expect(try await supabase.isRefused(statement, as: caller), "\(statement)")
        }
      }
      for columns in [
        "premium_expires_at) VALUES (\(id), now()", "premium_product_id) VALUES (\(id), 'forged'",
        "premium_original_transaction_id) VALUES (\(id), 'forged'",
      ] {
        let insert = "INSERT INTO profiles (id, \(columns))"
        #expect(try await supabase.isRefused(insert, as: caller), "\(insert)")
        let again = "WITH gone AS (DELETE FROM profiles) \(insert)"
        #expect(try await supabase.isRefused(again, as: caller), "\(again)")
      }
      for statement in [
        "UPDATE user_preferences SET is_premium = false", "UPDATE user_preferences SET bookmark_limit = 9999",
        "INSERT INTO user_preferences (user_id, is_premium) VALUES (\(id), true)",
        "INSERT INTO user_preferences (user_id, bookmark_limit) VALUES (\(id), 999)",
        "INSERT INTO user_preferences (user_id) VALUES (\(id)) ON CONFLICT (user_id) DO UPDATE SET is_premium = true",
      ] {
        let answer = try await supabase.run(statement, as: caller)
        #expect(answer?.affected ?? 0 == 0, "\(statement)")
      }
      for table in Self.apps {
        for statement in [
          "TRUNCATE \(table)",
          "CREATE TRIGGER mine BEFORE UPDATE ON \(table) FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
          "ALTER TABLE \(table) DISABLE TRIGGER ALL", "ALTER TABLE \(table) DISABLE ROW LEVEL SECURITY",
        ] {
          for caller in [Supabase.Caller.anon, caller] {
            #expect(try await supabase.isRefused(statement, as: caller), "\(caller): \(statement)")
          }
        }
      }
    }
  }

  @Test func `a Supabase user can read and write the other columns of their own profile only`() async throws {
    try await Supabase.with(.own) { supabase in
      let (user, other) = (supabase.users[0], supabase.users[1])
      let caller = Supabase.Caller.authenticated(user)
      let renamed = try await supabase.run("UPDATE profiles SET username = 'new'", as: caller)
      #expect(renamed?.affected == 1)
      let upserted = try await supabase.run(
        """
        INSERT INTO profiles (id, username) VALUES ('\(user)', 'new')
        ON CONFLICT (id) DO UPDATE SET username = excluded.username
        """, as: caller)
      #expect(upserted?.affected == 1)
      // A client may write back the values that it read.
      let same = try await supabase.run(
        "UPDATE profiles SET premium_product_id = premium_product_id, avatar_url = 'x'", as: caller)
      #expect(same?.affected == 1)

      for (table, key) in [("profiles", "id"), ("user_preferences", "user_id")] {
        let mine = try await supabase.run("SELECT \(key) FROM \(table)", as: caller)
        #expect(try mine?.map { try $0.decode(key, as: UUID.self) } == [user])
        let others = try await supabase.run("SELECT * FROM \(table) WHERE \(key) = '\(other)'", as: caller)
        #expect(others?.count == 0)
        let changed = try await supabase.run(
          "UPDATE \(table) SET \(key) = \(key) WHERE \(key) = '\(other)'", as: caller)
        #expect(changed?.affected ?? 0 == 0)
        #expect(try await supabase.run("SELECT * FROM \(table)", as: .anon)?.count ?? 0 == 0)
      }
    }
  }

  @Test
  func
    `no Supabase client can become premium with public profiles, and the doctor reports the visible columns`()
    async throws
  {
    try await Supabase.with(.all) { supabase in
      let user = supabase.users[0]
      let caller = Supabase.Caller.authenticated(user)
      #expect(try await supabase.isRefused("UPDATE profiles SET premium_product_id = 'x'", as: caller))
      // This app makes all columns of profiles public.
      let seen = try await supabase.run("SELECT premium_product_id FROM profiles", as: caller)
      #expect(seen?.count == 3)
      // Preferences are still visible only to their user.
      #expect(try await supabase.run("SELECT * FROM user_preferences", as: caller)?.count == 1)

      let finding = try await Doctor.publicPremium(supabase.pool)
      #expect(finding?.isOK == false)
      let advice = try #require(finding?.remedy)
      _ = try await supabase.pool.query(
        Query(unescaped: "DO $$ BEGIN EXECUTE $advice$\(advice)$advice$; END $$"))
      for caller in [caller, .anon] {
        for column in ["premium_expires_at", "premium_product_id", "premium_original_transaction_id"] {
          #expect(try await supabase.isRefused("SELECT \(column) FROM profiles", as: caller))
        }
        #expect(try await supabase.run("SELECT id, username FROM profiles", as: caller)?.count == 3)
      }
      #expect(try await supabase.run("UPDATE profiles SET username = 'new'", as: caller) != nil)
      #expect(try await Doctor.publicPremium(supabase.pool) == nil)
    }
    try await Supabase.with(.own) { supabase in
      let finding = try await Doctor.publicPremium(supabase.pool)
      #expect(finding == nil)
    }
  }

  @Test(arguments: ["receiptdtest_member", "receiptdtest_team"])
  func `the doctor reports the columns that another role of PostgREST sees, also as a member of a role`(
    policyRole: String
  ) async throws {
    try await Supabase.with(.own) { supabase in
      try await LiveTables.run(
        """
        \(Supabase.member)
        GRANT SELECT ON profiles TO receiptdtest_member;
        CREATE POLICY "Members see all." ON profiles FOR SELECT TO \(policyRole) USING (true);
        """, on: supabase.pool)
      let finding = try #require(try await Doctor.publicPremium(supabase.pool))
      #expect(finding.message.hasPrefix("its policies let receiptdtest_member read "), "\(finding.message)")
      try await LiveTables.run(try #require(finding.remedy), on: supabase.pool)
      #expect(try await Doctor.publicPremium(supabase.pool) == nil)
    }
  }

  @Test func `service_role can read and write everything but secrets`() async throws {
    try await Supabase.with(.own) { supabase in
      for relation in try await own(supabase)
      where relation.kind != "S" && !Self.secret.contains(relation.name) {
        let columns = Self.partlySecret.contains(relation.name) ? "count(*)" : "*"
        #expect(
          try await supabase.run("SELECT \(columns) FROM \(relation.name)", as: .service) != nil,
          "\(relation.name)")
      }
      for secret in ["envelope_claims", "envelope_signature", "transaction_signature", "renewal_signature"] {
        #expect(try await supabase.isRefused("SELECT \(secret) FROM notifications", as: .service))
      }
      #expect(try await supabase.isRefused("SELECT header FROM jws_headers", as: .service))
      let written = try await supabase.run("UPDATE profiles SET premium_product_id = 'x'", as: .service)
      #expect(written?.affected == 3)
    }
  }

  @Test func `service_role cannot read or write the signing keys of entitlement tokens`() async throws {
    try await Supabase.with(.own) { supabase in
      _ = try await supabase.pool.query(
        """
        INSERT INTO entitlement_keys (kid, private_key, created_at, signs_from)
        VALUES ('kid', sha256('seed'), now(), now())
        """)
      for name in Self.secret {
        for statement in [
          "SELECT * FROM \(name)", "SELECT count(*) FROM \(name)", "DELETE FROM \(name)", "TRUNCATE \(name)",
          "INSERT INTO \(name) DEFAULT VALUES",
        ] {
          #expect(try await supabase.isRefused(statement, as: .service), "\(statement)")
        }
      }
      #expect(try await supabase.pool.query("SELECT 1 FROM entitlement_keys").count == 1)
    }
  }

  @Test func `the support role can read every user and write nothing`() async throws {
    try await Supabase.with(.own) { supabase in
      let relations = try await own(supabase).filter {
        ["r", "v"].contains($0.kind) && !Self.secret.contains($0.name)
      }
      try await supabase.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptd_support")
        let columns = "premium_expires_at, premium_product_id, premium_original_transaction_id"
        #expect(try await connection.query("SELECT id, \(unescaped: columns) FROM profiles").count == 3)
        #expect(try await connection.query("SELECT * FROM user_preferences").count == 3)
        for relation in relations {
          let columns =
            Self.partlySecret.contains(relation.name) || relation.name == "events" ? "count(*)" : "*"
          _ = try await connection.query("SELECT \(unescaped: columns) FROM \(unescaped: relation.name)")
        }
      }
    }
  }

  @Test func `a server role that does not own the tables can read them while clients cannot`()
    async throws
  {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        for statement in [
          Supabase.roles,
          """
          DO $r$ BEGIN CREATE ROLE receiptd_test_server; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $r$;
          GRANT USAGE ON SCHEMA public TO receiptd_test_server;
          ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO receiptd_test_server;
          """,
        ] {
          _ = try await pool.query(
            Query(unescaped: "DO LANGUAGE plpgsql $do$ BEGIN EXECUTE $script$\(statement)$script$; END $do$"))
        }
        try await Migrator(pool: pool, folder: Harness.migrations).apply()
        _ = try await pool.query(
          "INSERT INTO subscriptions (original_transaction_id, bundle_id) VALUES ('1', 'com.example')")
        try await pool.withTransaction { connection in
          _ = try await connection.query("SET LOCAL ROLE receiptd_test_server")
          #expect(try await connection.query("SELECT 1 FROM subscriptions").count == 1)
          _ = try await connection.query("SELECT 1 FROM entitlement_keys")
        }
        // Clients still cannot read them.
        try await pool.withTransaction { connection in
          _ = try await connection.query("GRANT ALL ON subscriptions TO authenticated")
          _ = try await connection.query("SET LOCAL ROLE authenticated")
          #expect(try await connection.query("SELECT 1 FROM subscriptions").isEmpty)
        }
      }
    }
  }

  @Test func `clients write their rows where one role migrated at first and another one since`() async throws
  {
    let folder = FileManager.default.temporaryDirectory.appending(path: "first-\(UUID())").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    for name in try FileManager.default.contentsOfDirectory(atPath: Harness.migrations)
    where name.hasSuffix(".sql") && name < "20261213" {
      try FileManager.default.copyItem(atPath: Harness.migrations + "/" + name, toPath: folder + "/" + name)
    }
    try await withTestDatabase { database in
      try await database.withPool { pool in
        try await LiveTables.run(Supabase.roles, on: pool)
        try await LiveTables.run(
          """
          DO $do$ BEGIN CREATE ROLE receiptdtest_migrator LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $do$;
          ALTER ROLE receiptdtest_migrator SUPERUSER;
          """, on: pool)
        let first = try TestDatabase(uri: Self.url(of: database, as: "receiptdtest_migrator")).pool()
        try await Migrator(pool: first, folder: folder).apply()
        await first.close()
        // From here on it is an ordinary role, as the owner of a hosted database.
        try await LiveTables.run("ALTER ROLE receiptdtest_migrator NOSUPERUSER", on: pool)
        try await Migrator(pool: pool, folder: Harness.migrations).apply()
        try await LiveTables.run(
          """
          GRANT INSERT, UPDATE, SELECT ON profiles TO authenticated;
          SET ROLE authenticated;
          INSERT INTO profiles (id) VALUES ('00000000-0000-0000-0000-000000000001');
          UPDATE profiles SET premium_product_id = NULL;
          RESET ROLE
          """, on: pool)
        #expect(try await pool.query("SELECT FROM profiles").count == 1)
      }
    }
  }

  private static func url(of database: TestDatabase, as role: String) -> String {
    database.uri.replacing(/\/\/[^@\/]*@/, with: "//\(role)@")
  }
}

import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

@Suite struct MigrationTests {
  private static let folder = Harness.migrations

  private func withEmptyDatabase(_ body: (PostgresPool) async throws -> Void) async throws {
    try await withTestDatabase { database in
      let pool = try database.pool()
      do {
        try await body(pool)
      } catch {
        await pool.close()
        throw error
      }
      await pool.close()
    }
  }

  private func sql(_ name: String) throws -> String {
    let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder)
    let file = try #require(files.first { $0.contains(name) })
    return try String(contentsOfFile: Self.folder + "/" + file, encoding: .utf8)
  }

  /// Runs a script as somebody with psql would.
  private func run(_ script: String, on pool: PostgresPool) async throws {
    let quoted = "$script$" + script + "$script$"
    _ = try await pool.query(Query(unescaped: "DO LANGUAGE plpgsql $do$ BEGIN EXECUTE \(quoted); END $do$"))
  }

  @Test func `ten servers that start at once migrate once`() async throws {
    try await withTestDatabase { database in
      let applied = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<10 {
          group.addTask {
            let pool = try database.pool()
            let count = try await Migrator(pool: pool, folder: Self.folder).apply().count
            await pool.close()
            return count
          }
        }
        return try await group.reduce(0, +)
      }
      let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder)
        .filter { $0.hasSuffix(".sql") }
      #expect(applied == files.count)
    }
  }

  @Test func `the premium columns can be added again where somebody added them by hand`() async throws {
    try await withEmptyDatabase { pool in
      try await run("CREATE TABLE profiles (id uuid PRIMARY KEY, name text NOT NULL DEFAULT 'x')", on: pool)
      _ = try await pool.query("INSERT INTO profiles (id) VALUES (gen_random_uuid())")
      try await run(sql("add_premium_columns_to_profiles"), on: pool)
      _ = try await pool.query("UPDATE profiles SET premium_product_id = 'kept'")
      try await run(sql("add_premium_columns_to_profiles"), on: pool)
      let migrator = Migrator(pool: pool, folder: Self.folder)
      #expect(try await migrator.dryRun().count == migrator.pending().count)
      try await migrator.apply()
      #expect(try await migrator.pending().isEmpty)
      let product = try await pool.query("SELECT premium_product_id FROM profiles")[0]
      #expect(try product.decode(0, as: String.self) == "kept")
      let index = try await pool.query(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'profiles_premium_expires_at_idx'")
      #expect(try index[0].decode(0, as: String.self).contains("WHERE (premium_expires_at IS NOT NULL)"))
    }
  }

  @Test func `an app's own table of subscriptions is kept and completed`() async throws {
    try await withEmptyDatabase { pool in
      try await run(
        """
        CREATE TABLE subscriptions (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), device_id text,
          original_transaction_id text, transaction_id text, product_id text, tier text, status text,
          purchase_date timestamptz, expiry_date timestamptz, auto_renew_enabled boolean,
          last_validated_at timestamptz, created_at timestamptz DEFAULT now(),
          updated_at timestamptz DEFAULT now());
        INSERT INTO subscriptions (original_transaction_id, device_id) VALUES ('1', 'old phone');
        """, on: pool)
      try await Migrator(pool: pool, folder: Self.folder).apply()
      let row = try await pool.query("SELECT device_id, bundle_id FROM subscriptions")[0]
      #expect(try row.decode(0, as: String.self) == "old phone")
      #expect(try row.decode(1, as: String?.self) == nil)
    }
  }

  @Test func `every table and column has a comment`() async throws {
    try await withEmptyDatabase { pool in
      try await Migrator(pool: pool, folder: Self.folder).apply()
      let bare = try await pool.query(
        """
        SELECT c.relname || coalesce('.' || a.attname, '') AS name
        FROM pg_class c
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
          AND (obj_description(c.oid) IS NULL OR col_description(c.oid, a.attnum) IS NULL)
        """)
      #expect(try bare.map { try $0.decode(0, as: String.self) } == [])
      let views = try await pool.query(
        """
        SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'v'
          AND obj_description(oid) IS NULL
        """)
      #expect(views.isEmpty)
    }
  }

  @Test func `support may read everything and write nothing`() async throws {
    try await withEmptyDatabase { pool in
      try await Migrator(pool: pool, folder: Self.folder).apply()
      try await pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptd_support")
        for relation in [
          "subscriptions", "transactions", "renewals", "notifications", "profiles", "user_preferences",
          "trials", "devices", "grants", "support_actions", "outbox", "outbox_lanes", "schema_migrations",
          "support_outbox", "support_customers", "support_subscriptions", "support_timeline", "kpi_daily",
          "events", "kpi_days", "kpi_daily_figures", "kpi_daily_money", "kpi_events_daily",
          "kpi_revenue_daily",
        ] {
          _ = try await connection.query("SELECT * FROM \(unescaped: relation)")
          await #expect(throws: PostgresError.self) {
            try await connection.savepoint { connection in
              _ = try await connection.query("DELETE FROM \(unescaped: relation)")
            }
          }
        }
      }
    }
  }

  @Test func `on Supabase a user reads the own profile and cannot make it premium`() async throws {
    try await withEmptyDatabase { pool in
      try await run(Self.supabase, on: pool)
      try await Migrator(pool: pool, folder: Self.folder).apply()
      let user = try await pool.query("SELECT id FROM auth.users LIMIT 1")[0].decode(0, as: UUID.self)

      for role in ["anon", "authenticated"] {
        try await pool.withTransaction { connection in
          _ = try await connection.query("SET LOCAL ROLE \(unescaped: role)")
          _ = try await connection.query(
            "SELECT set_config('request.jwt.claims', \(#"{"sub":"\#(user)"}"#), true)")
          let visible = try await connection.query("SELECT id FROM profiles")
          #expect(visible.count == 1)

          for statement in [
            "UPDATE profiles SET premium_expires_at = now() + interval '1 year'",
            "UPDATE profiles SET premium_product_id = 'x'",
            "UPDATE profiles SET premium_original_transaction_id = 'x'",
            "INSERT INTO user_preferences (user_id, is_premium) VALUES ('\(user)', true)",
            "INSERT INTO user_preferences (user_id, bookmark_limit) VALUES ('\(user)', 999)",
            "SELECT * FROM subscriptions", "SELECT * FROM support_customers", "SELECT * FROM notifications",
            "SELECT * FROM outbox", "SELECT * FROM outbox_lanes", "SELECT * FROM support_outbox",
            "SELECT nextval('outbox_changes')", "SELECT kid FROM entitlement_keys",
          ] {
            await #expect(throws: PostgresError.self, "\(role): \(statement)") {
              try await connection.savepoint { connection in
                _ = try await connection.query(Query(unescaped: statement))
              }
            }
          }
          let renamed = try await connection.query("UPDATE profiles SET name = 'new'")
          #expect(renamed.affected == 1)
        }
      }

      try await pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE service_role")
        let written = try await connection.query(
          "UPDATE profiles SET premium_product_id = 'x' WHERE id = \(user)")
        #expect(written.affected == 1)
        // It is the role of an API, which private keys must never show in.
        await #expect(throws: PostgresError.self) {
          try await connection.savepoint { _ = try await $0.query("SELECT kid FROM entitlement_keys") }
        }
      }
    }
  }

  @Test func `where nothing is there, Supabase gets its tables with policies`() async throws {
    try await withEmptyDatabase { pool in
      try await run(Self.supabaseRoles + Self.supabaseAuth, on: pool)
      try await Migrator(pool: pool, folder: Self.folder).apply()
      let secured = try await pool.query(
        """
        SELECT relrowsecurity FROM pg_class
        WHERE oid IN ('profiles'::regclass, 'user_preferences'::regclass)
        """)
      #expect(try secured.map { try $0.decode(0, as: Bool.self) } == [true, true])
    }
  }

  /// Roles are the cluster's, so another test may have made them, or be making them right now.
  private static let supabaseRoles = """
    DO $roles$ DECLARE definition text; BEGIN
      FOREACH definition IN ARRAY ARRAY['anon', 'authenticated', 'service_role BYPASSRLS'] LOOP
        BEGIN
          EXECUTE 'CREATE ROLE ' || definition;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
      END LOOP;
    END $roles$;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO anon, authenticated, service_role;
    GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role;
    """

  private static let supabaseAuth = """
    CREATE SCHEMA auth;
    CREATE TABLE auth.users (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
    CREATE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql STABLE AS $uid$
      SELECT (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $uid$;
    GRANT USAGE ON SCHEMA auth TO anon, authenticated, service_role;
    INSERT INTO auth.users DEFAULT VALUES;
    INSERT INTO auth.users DEFAULT VALUES;
    INSERT INTO auth.users DEFAULT VALUES;
    """

  private static let supabase =
    supabaseRoles + supabaseAuth + """
      CREATE TABLE profiles (id uuid PRIMARY KEY REFERENCES auth.users ON DELETE CASCADE, name text);
      ALTER TABLE profiles ENABLE ROW LEVEL SECURITY;
      CREATE POLICY own_select ON profiles FOR SELECT USING ((SELECT auth.uid()) = id);
      CREATE POLICY own_update ON profiles FOR UPDATE USING ((SELECT auth.uid()) = id);
      CREATE POLICY own_insert ON profiles FOR INSERT WITH CHECK ((SELECT auth.uid()) = id);
      INSERT INTO profiles (id, name) SELECT id, 'somebody' FROM auth.users;
      """
}

import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Ledger
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

  /// Runs a script in one batch, like psql.
  private func run(_ script: String, on pool: PostgresPool) async throws {
    let quoted = "$script$" + script + "$script$"
    _ = try await pool.query(Query(unescaped: "DO LANGUAGE plpgsql $do$ BEGIN EXECUTE \(quoted); END $do$"))
  }

  @Test func `ten servers that start at once run each migration once`() async throws {
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

  @Test(arguments: [
    "CREATE TABLE profiles (id uuid PRIMARY KEY) PARTITION BY HASH (id)",
    "CREATE TABLE profiles (id uuid PRIMARY KEY); CREATE TABLE former_profiles () INHERITS (profiles)",
  ])
  func `a table of the app with partitions or children is refused`(definition: String) async throws {
    try await withEmptyDatabase { pool in
      try await run(definition, on: pool)
      let error = await #expect(throws: MigrationError.self) {
        try await Migrator(pool: pool, folder: Self.folder).apply()
      }
      #expect(
        error?.description.contains("public.profiles is partitioned, or other tables inherit from it") == true
      )
    }
  }

  @Test func `the premium columns can be added again after they were added by hand`() async throws {
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
      #expect(try product.decode("premium_product_id", as: String.self) == "kept")
      let index = try await pool.query(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_profiles_premium_expires_at'")
      #expect(
        try index[0].decode("indexdef", as: String.self).contains("WHERE (premium_expires_at IS NOT NULL)"))
    }
  }

  @Test func `the migrator refuses a database from before the migrations were folded`()
    async throws
  {
    try await withTestDatabase(migrationsFolder: Self.folder) { database in
      let pool = try database.pool()
      _ = try await pool.query(
        """
        UPDATE schema_migrations SET version = '20260120', name = 'create_user_preferences'
        WHERE version = (SELECT max(version) FROM schema_migrations)
        """)
      let before = try await pool.query("SELECT * FROM schema_migrations").count
      let migrator = Migrator(pool: pool, folder: Self.folder)
      for attempt in [migrator.apply, migrator.dryRun] {
        let error = await #expect(throws: MigrationError.self) { _ = try await attempt() }
        #expect(error?.kind == .removed)
        #expect(error?.description.contains("before the migrations were folded") == true)
      }
      #expect(try await pool.query("SELECT * FROM schema_migrations").count == before)
      await pool.close()
    }
  }

  @Test func `the migrations keep an app's own table subscriptions and add the missing columns`() async throws
  {
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
      #expect(try row.decode("device_id", as: String.self) == "old phone")
      #expect(try row.decode("bundle_id", as: String?.self) == nil)
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
        WHERE c.relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND c.relkind IN ('r', 'p')
          AND (obj_description(c.oid) IS NULL OR col_description(c.oid, a.attnum) IS NULL)
        """)
      #expect(try bare.map { try $0.decode("name", as: String.self) } == [])
      let views = try await pool.query(
        """
        SELECT relname FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind = 'v'
          AND obj_description(oid) IS NULL
        """)
      #expect(views.isEmpty)
    }
  }

  @Test func `the support role can read everything but secrets and write nothing`() async throws {
    try await withEmptyDatabase { pool in
      try await Migrator(pool: pool, folder: Self.folder).apply()
      try await pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptd_support")
        for relation in [
          "subscriptions", "transactions", "renewals", "notifications", "profiles", "user_preferences",
          "trials", "devices", "grants", "support_actions", "outbox", "outbox_destinations",
          "lifecycle_events", "schema_migrations", "people", "store_calls", "renewal_extensions", "consents",
          "purchase_devices", "configured_apps", "support_outbox", "support_work", "support_customers",
          "support_subscriptions", "support_timeline", "support_transactions", "kpi_daily", "events",
          "event_bytes_daily", "customer_event_bytes", "kpi_days",
          "kpi_daily_figures", "kpi_daily_money", "kpi_daily_cohorts", "kpi_daily_trials", "kpi_daily_value",
          "kpi_daily_prices", "kpi_losses_daily", "kpi_late_facts", "kpi_events_daily", "kpi_revenue_daily",
          "kpi_cohorts", "kpi_trial_cohorts", "kpi_lifetime_value", "kpi_price_changes",
        ] {
          // `RoleRightsTests` checks the columns of these two.
          let columns = ["notifications", "events"].contains(relation) ? "count(*)" : "*"
          _ = try await connection.query("SELECT \(unescaped: columns) FROM \(unescaped: relation)")
          await #expect(throws: PostgresError.self) {
            try await connection.savepoint { connection in
              _ = try await connection.query("DELETE FROM \(unescaped: relation)")
            }
          }
        }
      }
    }
  }

  @Test
  func
    `on an empty Supabase database the migrations create profiles and user_preferences with row level security`()
    async throws
  {
    try await withEmptyDatabase { pool in
      try await run(Supabase.roles + Supabase.auth, on: pool)
      try await Migrator(pool: pool, folder: Self.folder).apply()
      let secured = try await pool.query(
        """
        SELECT relrowsecurity FROM pg_class
        WHERE oid IN ('profiles'::regclass, 'user_preferences'::regclass)
        """)
      #expect(try secured.map { try $0.decode("relrowsecurity", as: Bool.self) } == [true, true])
    }
  }
}

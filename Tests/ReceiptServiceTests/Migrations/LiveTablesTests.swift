import Foundation
import Logging
import Platform
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// `receiptd migrate` on the tables that the apps have before receiptd arrives.
@Suite struct LiveTablesTests {
  private static let folder = Harness.migrations

  /// The text of a query's column `text`.
  private func texts(_ query: String, on pool: PostgresPool) async throws -> [String] {
    try await pool.query(Query(unescaped: query)).map { try $0.decode("text", as: String.self) }
  }

  /// The columns of the former server, as text; its times are UTC.
  private func rows(_ pool: PostgresPool, isMigrated: Bool) async throws -> [String] {
    func utc(_ column: String) -> String { isMigrated ? "\(column) AT TIME ZONE 'UTC'" : column }
    return try await texts(
      """
      SELECT concat_ws('|', id, device_id, original_transaction_id, transaction_id, product_id, tier, status,
        \(utc("purchase_date")), \(utc("expiry_date")), auto_renew_enabled, \(utc("last_validated_at")),
        \(utc("created_at")), \(utc("updated_at"))) AS text
      FROM subscriptions ORDER BY device_id
      """, on: pool)
  }

  /// The files of the tables and their indexes: a rewrite makes new ones.
  private func files(_ pool: PostgresPool) async throws -> [String] {
    try await texts(
      """
      SELECT c.relname || ' ' || pg_relation_filenode(c.oid) AS text FROM pg_class c
      LEFT JOIN pg_index i ON i.indexrelid = c.oid
      WHERE coalesce(i.indrelid, c.oid) IN ('subscriptions'::regclass, 'profiles'::regclass, 'user_preferences'::regclass)
      ORDER BY 1
      """, on: pool)
  }

  @Test(arguments: ["UTC", "America/New_York", "Asia/Kolkata"])
  func `every migration applies, rows stay, times are UTC, and nothing is rewritten`(timeZone: String)
    async throws
  {
    try await LiveTables.with(timeZone: timeZone) { _, pool in
      let before = try await rows(pool, isMigrated: false)
      let others = """
        SELECT p::text AS text FROM profiles p UNION ALL SELECT u::text FROM user_preferences u ORDER BY 1
        """
      let otherRows = try await texts(others, on: pool)
      let filesBefore = try await files(pool)
      let migrator = Migrator(pool: pool, folder: Self.folder)
      #expect(try await migrator.dryRun().count == migrator.pending().count)
      try await migrator.apply()
      #expect(try await migrator.pending().isEmpty)
      #expect(try await migrator.apply().isEmpty)
      #expect(before.count == 4)
      #expect(try await rows(pool, isMigrated: true) == before)
      #expect(otherRows.count == 13)
      #expect(try await texts(others, on: pool) == otherRows)
      #expect(try await Set(files(pool)).isSuperset(of: filesBefore))
    }
  }

  @Test func `columns have the types of a new database, and receiptd can leave each empty`() async throws {
    // Of the app's own tables only the columns that receiptd writes.
    let columns = """
      SELECT concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attname NOT IN ('created_at', 'updated_at') THEN a.attnotnull END) AS text
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      WHERE a.attnum > 0 AND NOT a.attisdropped AND (c.oid = 'subscriptions'::regclass
        OR c.oid IN ('profiles'::regclass, 'user_preferences'::regclass) AND a.attname ~ '^(id|user_id|premium_|is_|book)')
      ORDER BY 1
      """
    var new: [String] = []
    try await withTestDatabase(migrationsFolder: Self.folder) { database in
      new = try await database.withPool { try await texts(columns, on: $0) }
    }
    try await LiveTables.with { _, pool in
      try await Migrator(pool: pool, folder: Self.folder).apply()
      #expect(try await texts(columns, on: pool) == new)
      // The former server relies on these.
      #expect(
        try await texts(
          """
          SELECT attname || ' ' || pg_get_expr(adbin, adrelid) AS text FROM pg_attrdef
          JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
          WHERE adrelid = 'subscriptions'::regclass ORDER BY 1
          """, on: pool) == [
            "auto_renew_enabled true", "created_at now()", "id gen_random_uuid()", "last_validated_at now()",
            "updated_at now()",
          ])
    }
  }

  @Test func `an equal index under another name is used`() async throws {
    let indexes = """
      SELECT indexrelid::regclass::text AS text FROM pg_index
      WHERE indrelid IN ('subscriptions'::regclass, 'profiles'::regclass) ORDER BY 1
      """
    // Those on the same columns; a partial one counts as a whole one beside a whole one, and partial ones with the same
    // condition are doubles.
    let doubles = """
      SELECT string_agg(indexrelid::regclass::text, ', ' ORDER BY indexrelid::regclass::text) AS text FROM pg_index
      WHERE indrelid IN ('subscriptions'::regclass, 'profiles'::regclass, 'user_preferences'::regclass)
      GROUP BY indrelid,
        split_part(substr(pg_get_indexdef(indexrelid), strpos(pg_get_indexdef(indexrelid), ' USING ')), ' WHERE ', 1)
      HAVING count(*) > 1 AND (bool_or(indpred IS NULL)
        OR count(DISTINCT pg_get_expr(indpred, indrelid)) < count(*))
      """
    try await withTestDatabase(migrationsFolder: Self.folder) { database in
      try await database.withPool { pool in
        #expect(try await texts(doubles, on: pool) == [])
        let names = try await texts(indexes, on: pool)
        for name in ["idx_status", "idx_device_id", "idx_profiles_premium_expires_at"] {
          #expect(names.contains(name))
        }
      }
    }
    try await LiveTables.with { _, pool in
      let before = try await texts(doubles, on: pool)
      #expect(before == ["idx_original_transaction_id, subscriptions_original_transaction_id_key"])
      try await Migrator(pool: pool, folder: Self.folder).apply()
      #expect(try await texts(doubles, on: pool) == before)
      let names = try await texts(indexes, on: pool)
      for name in ["idx_status", "idx_device_id", "idx_profiles_premium_expires_at"] {
        #expect(names.contains(name))
      }
      for name in [
        "subscriptions_status_idx", "subscriptions_device_id_idx", "profiles_premium_expires_at_idx",
      ] { #expect(!names.contains(name)) }
      #expect(names.contains("subscriptions_transaction_id_idx"))
    }
  }

  @Test func `an index that was made by hand before is used, and one that is not valid is named`()
    async throws
  {
    try await LiveTables.with { _, pool in
      try await LiveTables.run(
        """
        CREATE INDEX by_hand ON subscriptions (transaction_id);
        CREATE INDEX subscriptions_expiry_date_idx ON subscriptions (expiry_date DESC);
        """, on: pool)
      let migrator = Migrator(pool: pool, folder: Self.folder)
      let error = await #expect(throws: MigrationError.self) { try await migrator.apply() }
      #expect(error?.description.contains("subscriptions_expiry_date_idx") == true)
      #expect(error?.description.contains("DROP INDEX CONCURRENTLY") == true)
      _ = try await pool.query("DROP INDEX subscriptions_expiry_date_idx")
      try await migrator.apply()
      #expect(
        try await pool.query("SELECT 1 FROM pg_indexes WHERE indexname = 'subscriptions_transaction_id_idx'")
          .isEmpty)
    }
  }

  @Test func `the former server goes on writing and reading`() async throws {
    try await LiveTables.with { _, pool in
      try await Migrator(pool: pool, folder: Self.folder).apply()
      _ = try await pool.query(
        """
        INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status, purchase_date, expiry_date) VALUES
          ('DEVICE-E', '2000000123456793', '2000000123456793', 'com.screentimerewards.family.monthly', 'family', 'active', now(), now() + interval '30 days')
        """)
      _ = try await pool.query(
        "UPDATE subscriptions SET status = 'grace', updated_at = NOW() WHERE device_id = 'DEVICE-B'")
      let grace = try await pool.query("SELECT * FROM subscriptions WHERE status = 'grace'")
      #expect(grace.count == 2)
      let found = try await pool.query("SELECT * FROM subscriptions WHERE device_id = 'ABC123-DEF456'")
      #expect(found.count == 1)
    }
  }

  @Test func `a failure on the way leaves the guards off, and clients write as before`() async throws {
    try await LiveTables.with { _, pool in
      // The app has a table of that name.
      _ = try await pool.query("CREATE TABLE support_actions (id int)")
      let migrator = Migrator(pool: pool, folder: Self.folder)
      let error = await #expect(throws: MigrationError.self) { try await migrator.apply() }
      #expect(error?.file == "20260412_support.sql")
      let user = LiveTables.user(9)
      _ = try await LiveTables.run(
        """
        UPDATE profiles SET premium_expires_at = '2027-01-19T10:00:00Z', premium_product_id = 'com.swiftclimb.premium.annual', premium_original_transaction_id = '2000000000001005' WHERE id = '\(user)'
        """, as: user, on: pool)
      _ = try await LiveTables.run(
        "INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user, on: pool)
      _ = try await LiveTables.run(
        "UPDATE user_preferences SET is_premium = true, bookmark_limit = 999 WHERE user_id = '\(user)'",
        as: user,
        on: pool)
      let premium = try await LiveTables.run(
        "SELECT is_premium FROM user_preferences", as: user, on: pool)
      #expect(try premium.map { try $0.decode("is_premium", as: Bool.self) } == [true])
      _ = try await pool.query(
        """
        INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status, purchase_date)
        VALUES ('DEVICE-E', '2', '2', 'p', 'family', 'active', now())
        """)
      let triggers =
        "SELECT tgname::text AS text FROM pg_trigger WHERE tgrelid = 'profiles'::regclass AND NOT tgisinternal"
      #expect(try await texts(triggers, on: pool) == [])
      _ = try await pool.query("DROP TABLE support_actions")
      try await migrator.apply()
      #expect(try await texts(triggers, on: pool).isEmpty == false)
    }
  }

  /// Later migrations only replace their functions and conditions, so an installation that stops before them has guards
  /// that work.
  @Test func `the guards come after all tables that they use`() throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder).filter {
      $0.hasSuffix(".sql")
    }
    .sorted()
    let guards = try names.filter {
      try String(contentsOfFile: Self.folder + "/" + $0, encoding: .utf8).contains(
        "CREATE TRIGGER receiptd_guard")
    }
    #expect(guards == ["20260420_client_writes.sql"])
    for name in names where name > "20260420_client_writes.sql" {
      let text = try String(contentsOfFile: Self.folder + "/" + name, encoding: .utf8)
      for table in ["client_writes", "client_write_modes", "added_profile_rows"] {
        #expect(!text.contains("CREATE TABLE public.\(table)"), "\(name)")
      }
    }
  }

  @Test func `a view on a column that changes its type is named`() async throws {
    try await LiveTables.with { _, pool in
      _ = try await pool.query("CREATE VIEW my_report AS SELECT purchase_date FROM subscriptions")
      let migrator = Migrator(pool: pool, folder: Self.folder)
      let error = await #expect(throws: MigrationError.self) { try await migrator.apply() }
      #expect(error?.description.contains("my_report") == true)
      #expect(error?.description.contains("drop that object, run receiptd migrate again") == true)
      #expect(try await rows(pool, isMigrated: false).count == 4)
      _ = try await pool.query("DROP VIEW my_report")
      try await migrator.apply()
    }
  }

  @Test func `a purchase with two rows is named`() async throws {
    try await LiveTables.with { _, pool in
      try await LiveTables.run(
        """
        ALTER TABLE subscriptions DROP CONSTRAINT subscriptions_original_transaction_id_key;
        INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status, purchase_date)
          SELECT 'DEVICE-B', original_transaction_id, transaction_id, product_id, tier, status, purchase_date
          FROM subscriptions WHERE device_id = 'DEVICE-C';
        """, on: pool)
      let migrator = Migrator(pool: pool, folder: Self.folder)
      let error = await #expect(throws: MigrationError.self) { try await migrator.apply() }
      #expect(error?.description.contains("2000000123456791") == true)
      _ = try await pool.query(
        "DELETE FROM subscriptions WHERE device_id = 'DEVICE-B' AND original_transaction_id = '2000000123456791'"
      )
      try await migrator.apply()
    }
  }

  @Test func `other types and further columns of the app are no obstacle`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        try await LiveTables.run(
          """
          CREATE TABLE profiles (id uuid PRIMARY KEY, premium_expires_at TIMESTAMP(3) NOT NULL, premium_product_id VARCHAR(80));
          CREATE INDEX ON profiles (premium_expires_at);
          CREATE TABLE user_preferences (user_id uuid PRIMARY KEY, is_premium INTEGER NOT NULL, bookmark_limit SMALLINT);
          CREATE TABLE subscriptions (id uuid PRIMARY KEY, device_id uuid NOT NULL, original_transaction_id CHAR(16) NOT NULL,
            plan text NOT NULL, expiry_date DATE, user_id text, price_milliunits numeric);
          INSERT INTO profiles VALUES (gen_random_uuid(), '2026-01-02 03:04:05.678', 'p');
          INSERT INTO user_preferences VALUES (gen_random_uuid(), 1, 999);
          INSERT INTO subscriptions VALUES (gen_random_uuid(), '6f1c2c1e-1f0b-4a0e-8d4b-111111111111', '2000000123456789',
            'gold', '2026-01-02', '6f1c2c1e-1f0b-4a0e-8d4b-222222222222', 4990);
          """, on: pool)
        try await Migrator(pool: pool, folder: Self.folder).apply()
        #expect(
          try await texts(
            """
            SELECT concat_ws('|', device_id, original_transaction_id, plan, expiry_date AT TIME ZONE 'UTC', user_id,
              price_milliunits) AS text FROM subscriptions
            UNION ALL SELECT concat_ws('|', premium_expires_at AT TIME ZONE 'UTC', premium_product_id) FROM profiles
            UNION ALL SELECT concat_ws('|', is_premium, bookmark_limit) FROM user_preferences
            """, on: pool) == [
              "6f1c2c1e-1f0b-4a0e-8d4b-111111111111|2000000123456789|gold|2026-01-02 00:00:00|"
                + "6f1c2c1e-1f0b-4a0e-8d4b-222222222222|4990",
              "2026-01-02 03:04:05.678|p", "t|999",
            ])
        _ = try await pool.query("INSERT INTO subscriptions (original_transaction_id) VALUES ('1')")
        let helpers = try await pool.query("SELECT 1 FROM pg_proc WHERE proname LIKE 'receiptd_fit%'")
        #expect(helpers.isEmpty)
      }
    }
  }

  @Test func `while a reader holds a table, each attempt ends, and other readers go on`() async throws {
    try await LiveTables.with { _, pool in
      let log = LogLines()
      let migrator = Migrator(
        pool: pool, folder: Self.folder, lockTimeout: .milliseconds(20),
        retry: Backoff(base: .milliseconds(20), maximum: .milliseconds(20), jitter: 0),
        logger: Logger(label: "tests") { _ in log })
      let migration = try await pool.withTransaction { connection in
        _ = try await connection.query("SELECT * FROM subscriptions")
        let migration = Task { try await migrator.apply() }
        while log.all.count < 4 {
          // The reader would wait for the long reader's end, and so for this loop, behind a request without a timeout.
          #expect(try await pool.query("SELECT * FROM subscriptions").count == 4)
          try await Task.sleep(for: .milliseconds(2))
        }
        return migration
      }
      _ = try await migration.value
      #expect(log.all.allSatisfy { $0.contains("20260402_subscriptions.sql") })
      #expect(try await migrator.pending().isEmpty)
    }
  }
}

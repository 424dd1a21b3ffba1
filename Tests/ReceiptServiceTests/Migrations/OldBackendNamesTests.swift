import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import TestDatabase
import Testing

@testable import Adoption
@testable import ReceiptService

/// Databases without the tables of an app's old backend, or without its premium columns: the old SQL and the old
/// clients go on.
@Suite struct OldBackendNamesTests {
  /// What the apps' old migrations say, for a database that may have it.
  private static let migrations = """
    SET search_path = public;
    ALTER TABLE profiles
      ADD COLUMN IF NOT EXISTS premium_expires_at TIMESTAMPTZ DEFAULT NULL,
      ADD COLUMN IF NOT EXISTS premium_product_id TEXT DEFAULT NULL,
      ADD COLUMN IF NOT EXISTS premium_original_transaction_id TEXT DEFAULT NULL;
    CREATE INDEX IF NOT EXISTS idx_profiles_premium_expires_at ON profiles (premium_expires_at)
      WHERE premium_expires_at IS NOT NULL;
    ALTER TABLE user_preferences
      ADD COLUMN IF NOT EXISTS is_premium BOOLEAN DEFAULT false,
      ADD COLUMN IF NOT EXISTS bookmark_limit INTEGER DEFAULT 2,
      ADD COLUMN IF NOT EXISTS created_at timestamptz DEFAULT now();
    """

  /// The migration of ScreenTime Rewards' old backend, by a runner that skips what exists.
  private static func screenTimeMigration() throws -> String {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(
      path: "../Fixtures/Live/screentime.sql")
    let script = try String(contentsOf: file.standardizedFileURL, encoding: .utf8)
    let schema = try #require(script.components(separatedBy: "INSERT INTO").first)
    #expect(schema.contains("CREATE TABLE subscriptions (") && schema.contains("CREATE INDEX idx_status"))
    return
      schema
      .replacing("CREATE TABLE ", with: "CREATE TABLE IF NOT EXISTS ")
      .replacing("CREATE INDEX ", with: "CREATE INDEX IF NOT EXISTS ")
  }

  /// The columns and indexes of the apps' tables.
  private static let shape = """
    SELECT attrelid::regclass || ' ' || attname AS text FROM pg_attribute
    WHERE attrelid IN ('subscriptions'::regclass, 'profiles'::regclass, 'user_preferences'::regclass) AND attnum > 0
    UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid IN ('subscriptions'::regclass, 'profiles'::regclass, 'user_preferences'::regclass)
    ORDER BY 1
    """

  private func texts(_ query: String, on pool: PostgresPool) async throws -> [String] {
    try await pool.query(Query(unescaped: query)).map { try $0.decode("text") }
  }

  @Test func `the old migrations add nothing to a new database`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        let before = try await texts(Self.shape, on: pool)
        #expect(before.contains { $0.hasPrefix("CREATE UNIQUE INDEX idx_original_transaction_id") })
        try await LiveTables.run(Self.migrations + Self.screenTimeMigration(), on: pool)
        #expect(try await texts(Self.shape, on: pool) == before)
      }
    }
  }

  @Test func `a new database has every column of the old table, with a default where it had one`()
    async throws
  {
    /// The names of the columns, and of those with a default.
    func columns(_ pool: PostgresPool) async throws -> [String] {
      try await texts(
        """
        SELECT attname || CASE WHEN atthasdef THEN ' default' ELSE '' END AS text FROM pg_attribute
        WHERE attrelid = 'public.subscriptions'::regclass AND attnum > 0 AND NOT attisdropped
        """, on: pool)
    }
    var old: [String] = []
    try await withTestDatabase { database in
      try await database.withPool { pool in
        try await LiveTables.run(Self.screenTimeMigration(), on: pool)
        old = try await columns(pool)
      }
    }
    #expect(old.count == 13 && old.contains("updated_at default"))
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        let new = try await columns(pool)
        #expect(Set(old).subtracting(new) == [])
      }
    }
  }

  @Test func `a row that an old backend adds has its defaults`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        let row = try await pool.query(
          """
          INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status, purchase_date)
          VALUES ('ABC123-DEF456', '2000000123456789', '2000000123456789', 'com.screentimerewards.family.monthly', 'family',
            'active', now())
          RETURNING auto_renew_enabled, last_validated_at IS NOT NULL AS is_validated, created_at IS NOT NULL AS is_dated,
            updated_at IS NOT NULL AS is_updated
          """)[0]
        #expect(try row.decode("auto_renew_enabled", as: Bool.self))
        #expect(try row.decode("is_validated", as: Bool.self))
        #expect(try row.decode("is_dated", as: Bool.self))
        #expect(try row.decode("is_updated", as: Bool.self))
        let preferences = try await pool.query(
          """
          INSERT INTO user_preferences (user_id) VALUES (gen_random_uuid())
          RETURNING created_at IS NOT NULL AS is_dated
          """)
        #expect(try preferences[0].decode("is_dated", as: Bool.self))
      }
    }
  }

  @Test func `profiles without premium columns is observed, and the purchase of an old build is found`()
    async throws
  {
    try await LiveApps.with([:]) { pool in
      try await LiveTables.run(
        """
        DROP INDEX idx_profiles_premium_expires_at;
        ALTER TABLE profiles DROP COLUMN premium_expires_at, DROP COLUMN premium_product_id,
          DROP COLUMN premium_original_transaction_id;
        DELETE FROM subscriptions;
        """, on: pool)
      try await Migrator(pool: pool, folder: Harness.migrations).apply()
      // A client writes before the first server has started.
      let mode = try await pool.query("SELECT receiptd.receiptd_client_write_mode('profiles') AS mode")
      #expect(try mode[0].decode("mode", as: String.self) == "observe")
    } body: { live in
      let stored = try await ClientWriteModes.read(live.harness.pool)
      #expect(stored.first { $0.table == "profiles" }?.mode == .observe)
      let bought = try live.buy()
      try await live.writesPremium(live[9], bought.originalTransactionID)
      #expect(try await live.profile(live[9]).product == nil)
      try await live.verifyClaims()
      #expect(try await live.profile(live[9]).product == SwiftClimb.monthly)
    }
  }
}

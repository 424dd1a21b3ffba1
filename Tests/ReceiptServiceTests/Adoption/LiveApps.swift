import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// SwiftClimb and Thaqalayn on one database that had users before receiptd, with the shipped configuration.
struct LiveApps: Sendable {
  let harness: Harness
  /// Nine users; SwiftClimb has a profile of each.
  let users: [UUID]

  /// Makes the database as the apps' teams run it, migrates it and starts receiptd.
  /// - Parameter clientWrites: the configured modes by bundle id.
  static func with(
    _ clientWrites: [String: String] = [:], environment: [String: String] = [:],
    _ body: (LiveApps) async throws -> Void
  ) async throws {
    try await withTestDatabase { database in
      let users = (1...9).compactMap { UUID(uuidString: "00000000-0000-4000-8000-00000000000\($0)") }
      try await database.withPool { pool in
        for script in [Supabase.roles, auth, swiftClimb, thaqalayn, screenTime] {
          _ = try await pool.query(
            Query(unescaped: "DO LANGUAGE plpgsql $do$ BEGIN EXECUTE $script$\(script)$script$; END $do$"))
        }
        try await Migrator(pool: pool, folder: Harness.migrations).apply()
      }
      let harness = try await Harness(
        databaseURL: testRole.map(database.uri(role:)) ?? database.uri,
        configuration: configuration(clientWrites),
        environment: ["SWIFTCLIMB_JWT_SECRET": Harness.secret, "THAQALAYN_JWT_SECRET": Harness.secret]
          .merging(environment) { $1 },
        ownerURL: testRole == nil ? nil : database.uri, databaseTimeout: .seconds(60))
      do {
        try await body(LiveApps(harness: harness, users: users))
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }

  /// The shipped configuration with the key `clientWrites` of these apps.
  static func configuration(_ clientWrites: [String: String]) throws -> String {
    var text = try ScreenTime.configuration()
    for (bundleID, mode) in clientWrites {
      text = text.replacing(
        #""bundleID": "\#(bundleID)","#, with: #""bundleID": "\#(bundleID)", "clientWrites": "\#(mode)","#)
    }
    return text
  }

  /// The user with this number, from 1.
  subscript(number: Int) -> UUID { users[number - 1] }

  // MARK: Old builds

  /// Runs a statement as PostgREST does it for a user.
  @discardableResult
  func run(_ statement: String, as user: UUID) async throws -> Rows {
    try await harness.pool.withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE authenticated")
      let claims = #"{"sub": "\#(user.uuidString.lowercased())", "role": "authenticated"}"#
      _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
      return try await connection.query(Query(unescaped: statement))
    }
  }

  /// What SwiftClimb sends after a purchase or renewal.
  func writesPremium(
    _ user: UUID, _ transactionID: String, product: String = SwiftClimb.annual,
    until expiry: String = "2027-01-19T10:00:00Z"
  ) async throws {
    try await run(
      """
      UPDATE profiles SET premium_expires_at = '\(expiry)', premium_product_id = '\(product)', \
      premium_original_transaction_id = '\(transactionID)' WHERE id = '\(user)'
      """, as: user)
  }

  /// What SwiftClimb sends after a change of the handle: the whole row, with a time of whole seconds.
  func writesWholeRow(_ user: UUID, handle: String, _ row: ProfileRow) async throws {
    func literal(_ text: String?) -> String { text.map { "'\($0)'" } ?? "NULL" }
    try await run(
      """
      INSERT INTO profiles (id, handle, display_name, premium_expires_at, premium_product_id, \
      premium_original_transaction_id, updated_at) \
      VALUES ('\(user)', '\(handle)', 'Ann', \(literal(row.expiresAt?.rfc3339)), \(literal(row.product)), \
      \(literal(row.originalTransactionID)), '2026-11-01T10:00:00Z') \
      ON CONFLICT (id) DO UPDATE SET handle = excluded.handle, display_name = excluded.display_name, \
      premium_expires_at = excluded.premium_expires_at, premium_product_id = excluded.premium_product_id, \
      premium_original_transaction_id = excluded.premium_original_transaction_id, updated_at = excluded.updated_at
      """, as: user)
  }

  /// What Thaqalayn sends after a purchase, and what it reads then.
  func writesIsPremium(_ user: UUID) async throws -> Bool? {
    try await run(
      "UPDATE user_preferences SET is_premium = true, bookmark_limit = 999 WHERE user_id = '\(user)'",
      as: user)
    return try await run("SELECT is_premium FROM user_preferences WHERE user_id = '\(user)'", as: user).first?
      .decode("is_premium", as: Bool?.self)
  }

  // MARK: The database

  func profile(_ user: UUID) async throws -> ProfileRow {
    try #require(try await harness.profileRow(of: user))
  }

  func handle(_ user: UUID) async throws -> String? {
    try await harness.pool.query("SELECT handle FROM profiles WHERE id = \(user)")[0].decode(
      "handle", as: String?.self)
  }

  /// Writes a legacy profile, as the app's old clients did before receiptd.
  func setProfile(
    _ user: UUID, _ transactionID: String?, product: String? = SwiftClimb.monthly, until expiry: Date?
  ) async throws {
    _ = try await harness.pool.query(
      """
      UPDATE profiles SET premium_original_transaction_id = \(transactionID), premium_product_id = \(product),
        premium_expires_at = \(expiry) WHERE id = \(user)
      """)
  }

  func clientWrites() async throws -> [ClientWrite] {
    try await harness.pool.query(
      """
      SELECT table_name, user_id, original_transaction_id, is_premium, mode, writes, outcome FROM client_writes
      ORDER BY id
      """
    ).map {
      ClientWrite(
        table: try $0.decode("table_name"), user: try $0.decode("user_id"),
        transactionID: try $0.decode("original_transaction_id"), isPremium: try $0.decode("is_premium"),
        mode: try $0.decode("mode"), writes: try $0.decode("writes"), outcome: try $0.decode("outcome"))
    }
  }

  /// A row of `client_writes`.
  struct ClientWrite: Equatable {
    var table: String
    var user: UUID
    var transactionID: String
    var isPremium: Bool?
    var mode: String
    var writes: Int
    var outcome: String?
  }

  /// Verifies the claims that are due some seconds after they were written.
  func verifyClaims(afterSeconds seconds: Double = 10) async throws {
    harness.clock.advance(seconds: seconds)
    try await harness.service.claimVerification.run()
  }

  /// A purchase in the store of which no notification and no client tells.
  func buy(
    _ productID: String = SwiftClimb.monthly, bundleID: String = SwiftClimb.bundleID, token: UUID? = nil
  ) throws -> SignedOutcome {
    try harness.store.buy(
      PurchaseRequest(bundleID: bundleID, productID: productID, appAccountToken: token))
  }

  /// Whether the statement fails with 42501.
  func isRefused(_ body: () async throws -> Void) async throws -> Bool {
    do {
      try await body()
      return false
    } catch let error as PostgresError where error.sqlState == "42501" {
      return true
    }
  }
}

// MARK: The apps' own SQL

extension LiveApps {
  private static let auth = """
    CREATE SCHEMA auth;
    CREATE TABLE auth.users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text, created_at timestamptz DEFAULT now());
    CREATE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql STABLE AS
    $uid$ SELECT (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $uid$;
    GRANT USAGE ON SCHEMA auth, public TO anon, authenticated, service_role;
    GRANT EXECUTE ON FUNCTION auth.uid() TO PUBLIC;
    INSERT INTO auth.users (id, email, created_at)
    SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'user' || n || '@example.com', timestamptz '2025-01-01' + n * interval '40 days'
    FROM generate_series(1, 9) AS n;
    """

  private static let swiftClimb = """
    CREATE TABLE profiles (
      id uuid PRIMARY KEY REFERENCES auth.users (id) ON DELETE CASCADE,
      handle text, display_name text,
      created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now()
    );
    ALTER TABLE profiles ENABLE ROW LEVEL SECURITY;
    CREATE POLICY "own select" ON profiles FOR SELECT USING (auth.uid() = id);
    CREATE POLICY "own insert" ON profiles FOR INSERT WITH CHECK (auth.uid() = id);
    CREATE POLICY "own update" ON profiles FOR UPDATE USING (auth.uid() = id);
    ALTER TABLE profiles
      ADD COLUMN IF NOT EXISTS premium_expires_at TIMESTAMPTZ DEFAULT NULL,
      ADD COLUMN IF NOT EXISTS premium_product_id TEXT DEFAULT NULL,
      ADD COLUMN IF NOT EXISTS premium_original_transaction_id TEXT DEFAULT NULL;
    CREATE INDEX IF NOT EXISTS idx_profiles_premium_expires_at ON profiles (premium_expires_at) WHERE premium_expires_at IS NOT NULL;
    INSERT INTO profiles (id, handle) SELECT id, email FROM auth.users;
    """

  private static let thaqalayn = """
    CREATE TABLE user_preferences (
      user_id uuid PRIMARY KEY REFERENCES auth.users (id) ON DELETE CASCADE,
      is_premium BOOLEAN DEFAULT false, bookmark_limit INTEGER DEFAULT 2, created_at timestamptz DEFAULT now()
    );
    ALTER TABLE user_preferences ENABLE ROW LEVEL SECURITY;
    CREATE POLICY "own rows" ON user_preferences FOR ALL USING (auth.uid() = user_id) WITH CHECK (auth.uid() = user_id);
    -- 5 had the paid app, 6 and 7 bought, 8 is free.
    INSERT INTO user_preferences (user_id, is_premium, bookmark_limit, created_at)
    SELECT id, id::text ~ '[567]$', CASE WHEN id::text ~ '[567]$' THEN 999 ELSE 2 END,
      CASE WHEN id::text LIKE '%5' THEN timestamptz '2025-03-01' ELSE timestamptz '2025-12-01' END
    FROM auth.users WHERE id::text ~ '[5678]$';
    """

  private static let screenTime = """
    CREATE TABLE subscriptions (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), device_id text,
      original_transaction_id text, transaction_id text, product_id text, tier text, status text,
      purchase_date timestamptz, expiry_date timestamptz, auto_renew_enabled boolean,
      last_validated_at timestamptz, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now());
    """
}

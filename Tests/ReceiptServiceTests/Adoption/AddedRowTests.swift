import Actions
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Rows that receiptd added to the app's own tables, and the `INSERT` of the app at sign-up.
@Suite struct AddedRowTests {
  private static func grant(_ live: LiveApps, _ user: UUID, of bundleID: String) async throws {
    _ = try await live.harness.desk.grant(
      to: user.uuidString, bundleID: bundleID, tier: "premium", days: 30, by: SupportAuthor.adoption("test"))
  }

  /// Makes a user without a row in any table.
  private static func newUser(_ live: LiveApps) async throws -> UUID {
    let user = UUID()
    _ = try await live.harness.pool.query("INSERT INTO auth.users (id) VALUES (\(user))")
    return user
  }

  private static func preferences(_ live: LiveApps, _ user: UUID) async throws -> [String] {
    try await live.harness.pool.query(
      "SELECT is_premium, bookmark_limit, theme FROM user_preferences WHERE user_id = \(user)"
    ).map {
      let (isPremium, limit) = (
        try $0.decode("is_premium", as: Bool.self), try $0.decode("bookmark_limit", as: Int.self)
      )
      return "\(isPremium) \(limit) \(try $0.decode("theme", as: String?.self) ?? "-")"
    }
  }

  private static func sqlState(_ body: () async throws -> Void) async -> String? {
    do {
      try await body()
      return nil
    } catch let error as PostgresError {
      return error.sqlState
    } catch {
      return "\(error)"
    }
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `an INSERT at sign-up succeeds after a grant, returns the row and keeps the status`(mode: String)
    async throws
  {
    try await LiveApps.with([Thaqalayn.bundleID: mode, SwiftClimb.bundleID: mode]) { live in
      _ = try await live.harness.pool.query("ALTER TABLE user_preferences ADD COLUMN theme text")
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: Thaqalayn.bundleID)
      try await Self.grant(live, user, of: SwiftClimb.bundleID)
      #expect(try await Self.preferences(live, user) == ["true 999 -"])

      // PostgREST answers `return=representation` with these rows.
      let returned = try await live.run(
        "INSERT INTO user_preferences (user_id, theme) VALUES ('\(user)', 'dark') RETURNING is_premium, theme",
        as: user)
      #expect(returned.count == 1)
      #expect(try returned.first?.decode("is_premium", as: Bool.self) == true)
      #expect(try await Self.preferences(live, user) == ["true 999 dark"])
      let row = try await live.profile(user)
      #expect(row.product == "grant:premium")
      try await live.run(
        "INSERT INTO profiles (id, handle, display_name) VALUES ('\(user)', 'ann', 'Ann')", as: user)
      #expect(try await live.handle(user) == "ann")
      #expect(try await live.profile(user) == row)
      #expect(try await live.clientWrites().isEmpty)
      #expect(try await live.harness.count("added_profile_rows") == 0)

      // Now the rows are the app's: a second INSERT fails as it always did, and an upsert that ignores duplicates does
      // not.
      #expect(
        await Self.sqlState {
          try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
        } == "23505")
      try await live.run(
        "INSERT INTO user_preferences (user_id) VALUES ('\(user)') ON CONFLICT DO NOTHING", as: user)
      try await live.run(
        "INSERT INTO user_preferences (user_id, theme) VALUES ('\(user)', 'light') "
          + "ON CONFLICT (user_id) DO UPDATE SET theme = excluded.theme", as: user)
      #expect(try await Self.preferences(live, user) == ["true 999 light"])

      // The end of the grant reaches the app's row.
      live.harness.clock.advance(days: 31)
      try await live.harness.service.sweepEverything()
      #expect(try await Self.preferences(live, user) == ["false 2 light"])
    }
  }

  @Test func `a forged INSERT over an added row gives no premium`() async throws {
    for mode in ["observe", "refuse"] {
      try await LiveApps.with([Thaqalayn.bundleID: mode]) { live in
        let user = try await Self.newUser(live)
        try await Self.grant(live, user, of: Thaqalayn.bundleID)
        live.harness.clock.advance(days: 31)
        try await live.harness.service.sweepEverything()
        let state = await Self.sqlState {
          try await live.run(
            "INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES ('\(user)', true, 999)",
            as: user)
        }
        #expect(state == (mode == "refuse" ? "42501" : nil))
        #expect(try await live.harness.isPremiumInPreferences(user) == false)
      }
    }
  }

  @Test func `a row that the client wrote, or that other rows refer to, is not replaced`() async throws {
    try await LiveApps.with { live in
      _ = try await live.harness.pool.query("ALTER TABLE user_preferences ADD COLUMN theme text")
      _ = try await live.harness.pool.query(
        "CREATE TABLE public.bookmarks (owner uuid REFERENCES user_preferences ON DELETE CASCADE)")
      for change in ["UPDATE user_preferences SET theme = 'dark'", "bookmark"] {
        let user = try await Self.newUser(live)
        try await Self.grant(live, user, of: Thaqalayn.bundleID)
        if change == "bookmark" {
          _ = try await live.harness.pool.query("INSERT INTO bookmarks VALUES (\(user))")
        } else {
          try await live.run("\(change) WHERE user_id = '\(user)'", as: user)
        }
        #expect(
          await Self.sqlState {
            try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
          } == "23505")
        #expect(try await live.harness.isPremiumInPreferences(user) == true)
      }
      #expect(try await live.harness.count("bookmarks") == 1)
    }
  }

  @Test func `a row is not replaced where a table refers to another column of it`() async throws {
    try await LiveApps.with { live in
      _ = try await live.pool.query(
        "ALTER TABLE user_preferences ADD COLUMN serial text UNIQUE DEFAULT gen_random_uuid()")
      _ = try await live.pool.query(
        "CREATE TABLE public.themes (owner text REFERENCES user_preferences (serial) ON DELETE CASCADE)")
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: Thaqalayn.bundleID)
      _ = try await live.pool.query(
        "INSERT INTO themes SELECT serial FROM user_preferences WHERE user_id = \(user)")
      #expect(await Self.sqlState { try await live.signsUp(user) } == "23505")
      #expect(try await live.harness.isPremiumInPreferences(user) == true)
      #expect(try await live.harness.count("themes") == 1)
    }
  }

  @Test(arguments: ["a_welcomes", "z_welcomes"])
  func `a row into which an AFTER INSERT trigger of the app wrote is the app's`(trigger: String) async throws
  {
    try await LiveApps.with { live in
      try await LiveTables.run(
        """
        CREATE FUNCTION public.welcome() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          UPDATE public.profiles SET handle = 'welcome' WHERE id = NEW.id; RETURN NULL; END $$;
        CREATE TRIGGER \(trigger) AFTER INSERT ON profiles FOR EACH ROW EXECUTE FUNCTION welcome();
        """, on: live.pool)
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: SwiftClimb.bundleID)
      #expect(try await live.handle(user) == "welcome")
      #expect(try await live.harness.count("added_profile_rows WHERE table_name = 'profiles'") == 0)
      _ = try await live.harness.erase(user.uuidString)
      #expect(try await live.handle(user) == "welcome")
    }
  }

  @Test(arguments: [("profiles", "id"), ("user_preferences", "user_id")])
  func `a row that the server adds is noted whatever names the app's columns have`(table: String, key: String)
    async throws
  {
    try await LiveApps.with { live in
      let columns = ["added", "new", "old", "added_to"].map { "ADD COLUMN \($0) timestamptz DEFAULT now()" }
      try await LiveTables.run("ALTER TABLE \(table) \(columns.joined(separator: ", "))", on: live.pool)
      let user = try await Self.newUser(live)
      try await LiveTables.run(
        """
        BEGIN; SET LOCAL ROLE receiptd_app; INSERT INTO \(table) (\(key)) VALUES ('\(user)'); COMMIT;
        """, on: live.pool)
      #expect(
        try await live.harness.count(
          "added_profile_rows WHERE table_name = '\(table)' AND user_id = '\(user)'") == 1)
    }
  }

  @Test(arguments: [
    "ALTER TABLE bookmarks OWNER TO receiptdtest_other; ALTER TABLE bookmarks ENABLE ROW LEVEL SECURITY;",
    "ALTER TABLE bookmarks OWNER TO receiptdtest_other;",
  ])
  func `a row stays where receiptd cannot see the rows that refer to it`(change: String) async throws {
    try await LiveApps.with { live in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_other;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        DO $role$ BEGIN CREATE ROLE receiptdtest_tables;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        CREATE TABLE public.bookmarks (owner uuid REFERENCES user_preferences ON DELETE CASCADE);
        """, on: live.pool)
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: Thaqalayn.bundleID)
      _ = try await live.pool.query("INSERT INTO bookmarks VALUES (\(user))")
      // The owner of the function may read the table in the first case alone, and then sees no row.
      try await LiveTables.run(
        """
        \(change)
        GRANT SELECT, DELETE ON user_preferences, added_profile_rows TO receiptdtest_tables;
        GRANT USAGE ON SCHEMA public, receiptd TO receiptdtest_tables;
        GRANT EXECUTE ON FUNCTION receiptd_make_room(text, uuid), receiptd_caller() TO receiptdtest_tables;
        \(change.contains("ROW LEVEL") ? "GRANT SELECT ON bookmarks TO receiptdtest_tables;" : "")
        ALTER TABLE user_preferences DISABLE ROW LEVEL SECURITY;
        CREATE POLICY "all" ON added_profile_rows TO receiptdtest_tables USING (true);
        """, on: live.pool)
      let replaced = try await live.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptdtest_tables")
        return try await connection.query(
          "SELECT receiptd_make_room('user_preferences', \(user)) IS NULL AS stays")[0]
          .decode("stays", as: Bool.self)
      }
      #expect(replaced)
      #expect(try await live.harness.count("bookmarks") == 1)
    }
  }

  @Test func `rows of a table that was truncated and filled again are the app's`() async throws {
    try await LiveApps.with { live in
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: SwiftClimb.bundleID)
      #expect(try await live.harness.count("added_profile_rows WHERE table_name = 'profiles'") == 1)
      try await LiveTables.run(
        "TRUNCATE profiles CASCADE; INSERT INTO profiles (id, handle) VALUES ('\(user)', 'restored')",
        on: live.pool)
      #expect(try await live.harness.count("added_profile_rows WHERE table_name = 'profiles'") == 0)
      _ = try await live.harness.erase(user.uuidString)
      #expect(try await live.handle(user) == "restored")
    }
  }

  @Test func `a row that was deleted is forgotten, so that a row of the app is never replaced`() async throws
  {
    try await LiveApps.with { live in
      let user = try await Self.newUser(live)
      try await Self.grant(live, user, of: Thaqalayn.bundleID)
      _ = try await live.harness.pool.query("DELETE FROM user_preferences WHERE user_id = \(user)")
      #expect(try await live.harness.count("added_profile_rows") == 0)
      _ = try await live.harness.pool.query("INSERT INTO user_preferences (user_id) VALUES (\(user))")
      #expect(
        await Self.sqlState {
          try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
        } == "23505")
    }
  }

  @Test func `in refuse an INSERT for another user answers the same, whatever that user has`() async throws {
    try await LiveApps.with([SwiftClimb.bundleID: "refuse", Thaqalayn.bundleID: "refuse"]) { live in
      let attacker = live[1]
      let bought = try live.buy(token: live[2])
      try await live.harness.arrives(bought)
      let premium = try await live.profile(live[2])
      let expiry = try #require(premium.expiresAt).rfc3339
      let added = try await Self.newUser(live)
      try await Self.grant(live, added, of: Thaqalayn.bundleID)
      let rowless = try await Self.newUser(live)

      func answer(_ statement: String) async throws -> String {
        do {
          try await live.run(statement, as: attacker)
          return "no error"
        } catch let error as PostgresError {
          return "\(error)"
        }
      }
      // 5 is premium, 8 is free, the others have an added row or none.
      for values in ["", ", true, 999", ", false, 2", ", true, 2"] {
        var answers: Set<String> = []
        for user in [live[5], live[8], added, rowless] {
          let columns = values.isEmpty ? "user_id" : "user_id, is_premium, bookmark_limit"
          for suffix in [
            "", " ON CONFLICT DO NOTHING", " ON CONFLICT (user_id) DO UPDATE SET is_premium = true",
          ] {
            answers.insert(
              try await answer(
                "INSERT INTO user_preferences (\(columns)) VALUES ('\(user)'\(values))\(suffix)"))
          }
        }
        #expect(answers.count == 1, "\(answers)")
        #expect(!answers.contains("no error"))
      }
      // 2 has exactly these values, 3 has none, and there is no row of the last.
      for values in [
        "NULL, NULL, NULL", "'\(expiry)', '\(SwiftClimb.monthly)', '\(bought.originalTransactionID)'",
      ] {
        var answers: Set<String> = []
        for user in [live[2], live[3], rowless] {
          answers.insert(
            try await answer(
              """
              INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id) \
              VALUES ('\(user)', \(values))
              """))
        }
        #expect(answers.count == 1, "\(answers)")
        #expect(!answers.contains("no error"))
      }
      #expect(try await live.harness.count("added_profile_rows") == 1)
    }
  }
}

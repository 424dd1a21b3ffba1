import Actions
import Foundation
import Postgres
import Testing

@testable import Adoption
@testable import Customers
@testable import ReceiptService
@testable import Support

/// Writes by which a client tries to get an award of `receiptd adopt`.
@Suite struct ClientAwardTests {
  private static let modes = [SwiftClimb.bundleID: "accept", Thaqalayn.bundleID: "accept"]

  private static func id(_ user: UUID) -> String { user.uuidString.lowercased() }

  // MARK: Races

  @Test(arguments: ["profiles", "user_preferences"])
  func `an INSERT that races with a DELETE of the client's own row is noted, and gets no award`(
    table: String
  ) async throws {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      let isProfile = table == "profiles"
      let bundleID = isProfile ? SwiftClimb.bundleID : Thaqalayn.bundleID
      try await live.signsUp(user)
      _ = try await live.adopt(bundleID)
      let deletion: Query =
        isProfile
        ? "DELETE FROM profiles WHERE id = \(user)" : "DELETE FROM user_preferences WHERE user_id = \(user)"
      let insertion =
        isProfile
        ? "INSERT INTO profiles (id, premium_product_id) VALUES ('\(user)', '\(SwiftClimb.annual)')"
        : "INSERT INTO user_preferences (user_id, is_premium) VALUES ('\(user)', true)"
      let inserting = try await live.pool.withTransaction { connection in
        _ = try await connection.query(deletion)
        let inserting = Task { _ = try await live.run(insertion, as: user) }
        let waiting: Query = """
          SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
          WHERE a.datname = current_database() AND NOT l.granted
          """
        while try await live.pool.query(waiting).isEmpty { await Task.yield() }
        return inserting
      }
      try await inserting.value
      let notes = try await live.clientWrites()
      #expect(notes.map(\.table) == [table])
      #expect(notes.map(\.writes) == [1])
      let report = try await live.adopt(bundleID)
      #expect(report.awardsWithheld == [Self.id(user)])
      let grants = try await live.pool.query("SELECT id FROM grants WHERE user_id = \(user)")
      #expect(grants.isEmpty)
    }
  }

  @Test func `an INSERT that meets a row is noted once if it updates the row, and else not at all`()
    async throws
  {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      let insertion =
        "INSERT INTO profiles (id, premium_product_id) VALUES ('\(user)', '\(SwiftClimb.annual)')"
      try await live.run("\(insertion) ON CONFLICT DO NOTHING", as: user)
      await #expect(throws: PostgresError.self) { try await live.run(insertion, as: user) }
      #expect(try await live.clientWrites().isEmpty)
      try await live.run(
        "\(insertion) ON CONFLICT (id) DO UPDATE SET premium_product_id = excluded.premium_product_id",
        as: user)
      #expect(try await live.clientWrites().map(\.writes) == [1])
    }
  }

  @Test(arguments: ["profiles", "user_preferences"])
  func `a write whose note cannot be written keeps the stored premium values, and gets no award`(
    table: String
  ) async throws {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      let isProfile = table == "profiles"
      let bundleID = isProfile ? SwiftClimb.bundleID : Thaqalayn.bundleID
      try await live.signsUp(user)
      _ = try await live.adopt(bundleID)
      try await live.pool.withTransaction { connection in
        // The client's other transaction, which has not committed its note.
        _ = try await connection.query(
          "INSERT INTO client_writes (table_name, user_id, mode) VALUES (\(table), \(user), 'accept')")
        let condition = "WHERE set_config('lock_timeout', '10ms', true) <> ''"
        try await live.run(
          isProfile
            ? "UPDATE profiles SET handle = 'x', premium_product_id = '\(SwiftClimb.annual)' \(condition)"
            : "UPDATE user_preferences SET is_premium = true \(condition)", as: user)
        _ = try await connection.query("DELETE FROM client_writes")
      }
      #expect(try await live.profile(user) == ProfileRow())
      #expect(try await live.harness.isPremiumInPreferences(user) == false)
      if isProfile { #expect(try await live.handle(user) == "x") }
      _ = try await live.adopt(bundleID)
      let grants = try await live.pool.query("SELECT id FROM grants WHERE user_id = \(user)")
      #expect(grants.isEmpty)
    }
  }

  @Test func `a transaction that began before the first adoption and writes after it gets no award`()
    async throws
  {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      try await live.signsUp(user)
      let claims = #"{"sub": "\#(Self.id(user))", "role": "authenticated"}"#
      try await live.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL idle_in_transaction_session_timeout = 0")
        _ = try await connection.query("SET LOCAL ROLE authenticated")
        _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
        _ = try await live.adopt(Thaqalayn.bundleID)
        _ = try await connection.query("UPDATE user_preferences SET is_premium = true")
      }
      #expect(try await live.adopt(Thaqalayn.bundleID).awardsWithheld == [Self.id(user)])
    }
  }

  // MARK: Keys

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a row that a client moves to another user is a new row of that user`(mode: String) async throws {
    try await LiveApps.with([SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode]) { live in
      let (payer, other) = (live[6], live[9])
      try await LiveTables.run(
        "CREATE POLICY lax ON user_preferences TO authenticated USING (true) WITH CHECK (true)", on: live.pool
      )
      _ = try await live.adopt(Thaqalayn.bundleID)
      func moves(_ user: UUID) async throws {
        try await live.run(
          "UPDATE user_preferences SET user_id = '\(other)' WHERE user_id = '\(user)'", as: user)
      }
      if mode == "refuse" {
        #expect(try await live.isRefused { try await moves(payer) })
        #expect(try await live.harness.isPremiumInPreferences(payer) == true)
        // A free user's row.
        try await moves(live[8])
        #expect(try await live.clientWrites().isEmpty)
      } else {
        try await moves(payer)
        #expect(try await live.clientWrites().map(\.user) == [other])
        #expect(try await live.clientWrites().map(\.mode) == [mode])
      }
      #expect(try await live.harness.isPremiumInPreferences(other) == (mode == "accept"))
      let row = try await live.pool.query(
        "SELECT created_at > now() - interval '1 day' AS is_new FROM user_preferences WHERE user_id = \(other)"
      )[0]
      #expect(try row.decode("is_new", as: Bool.self))
      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.awardsWithheld == (mode == "accept" ? [Self.id(other)] : []))
      let grants = try await live.pool.query("SELECT id FROM grants WHERE user_id = \(other)")
      #expect(grants.isEmpty)
    }
  }

  @Test(arguments: ["accept", "refuse"])
  func `a profile that a client moves to another user claims its premium anew`(mode: String) async throws {
    try await LiveApps.with([SwiftClimb.bundleID: mode]) { live in
      let (payer, other) = (live[1], live[9])
      try await LiveTables.run(
        "CREATE POLICY lax ON profiles TO authenticated USING (true) WITH CHECK (true)", on: live.pool)
      _ = try await live.adopt()
      try await live.setProfile(payer, nil, until: .distantFuture)
      _ = try await live.pool.query("DELETE FROM profiles WHERE id = \(other)")
      let move = "UPDATE profiles SET id = '\(other)' WHERE id = '\(payer)'"
      if mode == "refuse" {
        #expect(try await live.isRefused { _ = try await live.run(move, as: payer) })
      } else {
        try await live.run(move, as: payer)
        #expect(try await live.clientWrites().map(\.user) == [other])
        #expect(try await live.adopt().awardsWithheld == [Self.id(other)])
      }
    }
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a row whose key a foreign key changes moves as by the client that caused it`(mode: String)
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode]) { live in
      let (payer, other) = (live[6], live[9])
      try await LiveTables.run(
        """
        CREATE POLICY lax ON profiles TO authenticated USING (true) WITH CHECK (true);
        ALTER TABLE user_preferences ADD FOREIGN KEY (user_id) REFERENCES profiles ON UPDATE CASCADE;
        DELETE FROM profiles WHERE id IN ('\(live[3])', '\(other)');
        """, on: live.pool)
      _ = try await live.adopt(Thaqalayn.bundleID)
      let move = "UPDATE profiles SET id = '\(other)' WHERE id = '\(payer)'"
      if mode == "refuse" {
        #expect(try await live.isRefused { try await live.run(move, as: payer) })
        #expect(try await live.harness.isPremiumInPreferences(payer) == true)
      } else {
        try await live.run(move, as: payer)
        #expect(try await live.clientWrites().map(\.user) == [other])
        #expect(try await live.harness.isPremiumInPreferences(other) == (mode == "accept"))
        let row = try await live.pool.query(
          "SELECT created_at > now() - interval '1 day' AS is_new FROM user_preferences WHERE user_id = \(other)"
        )[0]
        #expect(try row.decode("is_new", as: Bool.self))
        let report = try await live.adopt(Thaqalayn.bundleID)
        #expect(report.awardsWithheld == (mode == "accept" ? [Self.id(other)] : []))
      }
      let grants = try await live.pool.query("SELECT id FROM grants WHERE user_id = \(other)")
      #expect(grants.isEmpty)

      // The owner moves a user with all rights.
      _ = try await live.pool.query("UPDATE profiles SET id = \(live[3]) WHERE id = \(live[7])")
      #expect(try await live.harness.isPremiumInPreferences(live[3]) == true)
      #expect(try await !live.clientWrites().contains { $0.user == live[3] })
    }
  }

  // MARK: Triggers of the app

  /// A trigger that runs after receiptd's, and makes each row that of the client's user.
  private static let setsUser = """
    CREATE FUNCTION public.sets_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
      NEW.user_id := coalesce(auth.uid(), NEW.user_id); RETURN NEW; END $$;
    CREATE TRIGGER sets_user BEFORE INSERT OR UPDATE ON user_preferences
      FOR EACH ROW EXECUTE FUNCTION sets_user();
    CREATE POLICY lax ON user_preferences TO authenticated USING (true) WITH CHECK (true);
    """

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a payer's values that a trigger of the app moves to the client's user are a claim of that user`(
    mode: String
  ) async throws {
    try await LiveApps.with([Thaqalayn.bundleID: mode]) { live in
      try await LiveTables.run(Self.setsUser, on: live.pool)
      _ = try await live.adopt(Thaqalayn.bundleID)
      let (inserting, updating) = (live[9], live[4])
      let statements = [
        (
          inserting,
          "INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES ('\(live[6])', true, 999)"
        ),
        (updating, "UPDATE user_preferences SET created_at = now() WHERE user_id = '\(live[7])'"),
      ]
      for (user, statement) in statements {
        // A client that knows how the triggers pass on what they decided.
        let forges = "set_config('receiptd.guarded_user_preferences', '(\(Self.id(user)),t)', true)"
        func writes() async throws {
          let claims = #"{"sub": "\#(Self.id(user))", "role": "authenticated"}"#
          try await live.pool.withTransaction { connection in
            _ = try await connection.query("SET LOCAL ROLE authenticated")
            _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
            _ = try await connection.query(Query(unescaped: "SELECT \(forges)"))
            _ = try await connection.query(Query(unescaped: statement))
          }
        }
        if mode == "accept" {
          try await writes()
        } else {
          #expect(try await live.isRefused(writes))
        }
      }
      let report = try await live.adopt(Thaqalayn.bundleID)
      if mode == "accept" {
        #expect(try await live.clientWrites().map(\.user) == [inserting, updating])
        #expect(report.awardsWithheld == [Self.id(updating), Self.id(inserting)])
      } else {
        #expect(try await live.clientWrites().isEmpty)
        #expect(try await live.harness.isPremiumInPreferences(live[7]) == true)
      }
      let grants = try await live.pool.query(
        "SELECT id FROM grants WHERE user_id = ANY(\([inserting, updating]))")
      #expect(grants.isEmpty)
    }
  }

  @Test func `accept notes a claim for the user whom a trigger of the app sets`() async throws {
    try await LiveApps.with(Self.modes) { live in
      try await LiveTables.run(Self.setsUser, on: live.pool)
      let user = live[9]
      try await live.run("INSERT INTO user_preferences (is_premium) VALUES (true)", as: user)
      #expect(try await live.harness.isPremiumInPreferences(user) == true)
      #expect(try await live.clientWrites().map(\.user) == [user])
      #expect(try await live.clientWrites().map(\.writes) == [1])
    }
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a profile whose id a trigger of the app changes is a claim of the user whom it names`(mode: String)
    async throws
  {
    try await LiveApps.with([SwiftClimb.bundleID: mode]) { live in
      let (payer, other) = (live[1], live[9])
      try await LiveTables.run(
        """
        CREATE FUNCTION public.sets_id() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          NEW.id := coalesce(auth.uid(), NEW.id); RETURN NEW; END $$;
        CREATE TRIGGER sets_id BEFORE INSERT ON profiles FOR EACH ROW EXECUTE FUNCTION sets_id();
        DELETE FROM profiles WHERE id = '\(other)';
        """, on: live.pool)
      _ = try await live.adopt()
      try await live.setProfile(payer, nil, until: nil)
      let insertion =
        "INSERT INTO profiles (id, premium_product_id) VALUES ('\(payer)', '\(SwiftClimb.monthly)')"
      if mode == "accept" {
        try await live.run(insertion, as: other)
        #expect(try await live.clientWrites().map(\.user) == [other])
        #expect(try await live.adopt().awardsWithheld == [Self.id(other)])
      } else {
        #expect(try await live.isRefused { try await live.run(insertion, as: other) })
        #expect(try await live.harness.profileRow(of: other) == nil)
      }
    }
  }

  // MARK: Erased customers

  @Test func `an erased customer whose row is locked gets no award, and the row becomes free`() async throws {
    try await LiveApps.with(Self.modes) { live in
      let user = live[6]
      _ = try await live.adopt(Thaqalayn.bundleID)
      func hasAward() async throws -> Bool {
        try await !live.pool.query("SELECT id FROM grants WHERE user_id = \(user)").isEmpty
      }
      #expect(try await hasAward())
      try await live.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL idle_in_transaction_session_timeout = 0")
        _ = try await connection.query("SELECT 1 FROM user_preferences WHERE user_id = \(user) FOR UPDATE")
        try await live.harness.erase(Self.id(user), of: Thaqalayn.bundleID)
        for isDryRun in [true, false] {
          let report = try await live.adopt(Thaqalayn.bundleID, isDryRun: isDryRun)
          #expect(report.waitingForStatus == [Self.id(user)])
          #expect(!report.isComplete)
          #expect(report.description.contains("  1 with a row to which receiptd has yet to write a status"))
        }
        #expect(try await !hasAward())
      }
      live.harness.clock.advance(seconds: 60)
      try await live.harness.service.customers.profileRetry.run()
      #expect(try await live.harness.isPremiumInPreferences(user) == false)
      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.waitingForStatus == [])
      #expect(report.isComplete)
      #expect(try await !hasAward())
    }
  }

  // MARK: Times

  @Test func `an infinite time that a client writes is no end, and stops no run`() async throws {
    try await LiveApps.with(Self.modes) { live in
      func writes(_ time: String, _ user: UUID) async throws {
        try await live.run(
          """
          UPDATE profiles SET premium_expires_at = '\(time)', premium_product_id = '\(SwiftClimb.annual)' \
          WHERE id = '\(user)'
          """, as: user)
      }
      try await writes("infinity", live[1])
      try await writes("-infinity", live[2])
      try await writes("20000-01-01", live[3])
      #expect(try await live.adopt(isDryRun: true).outcomes == ["awarded": 2])
      #expect(try await live.adopt().outcomes == ["awarded": 2])
      let grants = try await live.pool.query("SELECT user_id, ends_at FROM grants ORDER BY user_id")
      #expect(try grants.map { try $0.decode("user_id", as: UUID.self) } == [live[1], live[3]])
      #expect(try grants.map { try $0.decode("ends_at", as: Date?.self) } == [nil, nil])

      try await writes("infinity", live[4])
      let report = try await live.adopt()
      #expect(report.outcomes == ["awarded": 2])
      #expect(report.awardsWithheld == [Self.id(live[4])])
    }
  }

  // MARK: Decisions and notes

  @Test func `a row that a grant of support made premium gets no award after the grant's end`() async throws {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      _ = try await live.adopt(Thaqalayn.bundleID)
      try await live.signsUp(user)
      _ = try await live.harness.desk.grant(
        to: user.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 1,
        by: SupportAuthor(by: .operatorNamed("ben"), reason: "ticket 811"))
      // No server runs, so no job clears the row.
      live.harness.clock.advance(days: 2)
      #expect(try await live.harness.isPremiumInPreferences(user) == true)
      for days in [nil, 30] {
        let report = try await live.adopt(Thaqalayn.bundleID, clientAwardDays: days)
        #expect(report.outcomes == ["awarded": 3])
        #expect(report.awardsDenied == [Self.id(user)])
      }
      let grants = try await live.pool.query("SELECT id FROM grants WHERE user_id = \(user)")
      #expect(grants.count == 1)
    }
  }

  @Test func `a write that claims no premium does not wipe the claim of an earlier write`() async throws {
    try await LiveApps.with(Self.modes) { live in
      let user = live[9]
      try await live.signsUp(user)
      #expect(try await live.writesIsPremium(user) == true)
      for value in ["false", "NULL"] {
        try await live.run(
          "UPDATE user_preferences SET is_premium = \(value) WHERE user_id = '\(user)'", as: user)
      }
      let notes = try await live.clientWrites()
      #expect(notes.map(\.isPremium) == [true])
      #expect(notes.map(\.writes) == [3])

      for value in ["'\(SwiftClimb.annual)'", "NULL"] {
        try await live.run("UPDATE profiles SET premium_product_id = \(value) WHERE id = '\(user)'", as: user)
      }
      let products = try await live.pool.query(
        "SELECT product_id FROM client_writes WHERE table_name = 'profiles'")
      #expect(try products.map { try $0.decode("product_id", as: String?.self) } == [SwiftClimb.annual])
    }
  }
}

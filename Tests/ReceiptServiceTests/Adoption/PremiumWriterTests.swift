import Actions
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Roles of the database beside Supabase's and receiptd's, with rights on the app's own tables: those of other kinds of
/// clients, as which PostgREST acts, and the app's own backend, which signs in.
@Suite struct PremiumWriterTests {
  static let member = "receiptdtest_member"
  static let backend = "receiptdtest_backend"
  static let receipt = "2000000000001005"

  /// Runs a test where both roles may read and write the tables.
  static func with(
    _ mode: String, _ body: (LiveApps) async throws -> Void
  ) async throws {
    try await LiveApps.with([SwiftClimb.bundleID: mode, Thaqalayn.bundleID: mode]) { live in
      try await LiveTables.run(
        """
        DO $roles$ DECLARE definition text; BEGIN
          FOREACH definition IN ARRAY ARRAY['\(member)', '\(backend) LOGIN'] LOOP
            BEGIN EXECUTE 'CREATE ROLE ' || definition;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
          END LOOP;
        END $roles$;
        GRANT USAGE ON SCHEMA public, auth TO \(member), \(backend);
        GRANT SELECT, INSERT, UPDATE, DELETE ON profiles, user_preferences TO \(member), \(backend);
        CREATE POLICY "the backend writes" ON profiles TO \(backend) USING (true) WITH CHECK (true);
        """, on: live.pool)
      try await body(live)
    }
  }

  /// Runs a statement with a role and commits it.
  /// - Parameter user: the user for whom PostgREST acts; `nil` for a role that signs in itself.
  @discardableResult
  static func run(
    _ statement: String, as role: String, for user: UUID? = nil, on pool: PostgresPool
  ) async throws -> Rows {
    try await pool.withTransaction { connection in
      if let user {
        let claims = #"{"sub": "\#(user.uuidString.lowercased())", "role": "\#(role)"}"#
        _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
        // A client that knows how the triggers pass on the role.
        _ = try await connection.query("SELECT set_config('receiptd.premium_writer', '(server)', true)")
      }
      let sets = user == nil ? "SET LOCAL SESSION AUTHORIZATION" : "SET LOCAL ROLE"
      _ = try await connection.query(Query(unescaped: "\(sets) \(role)"))
      return try await connection.query(Query(unescaped: statement))
    }
  }

  static func premium(_ user: UUID) -> [String] {
    let values = "premium_product_id = 'forged', premium_original_transaction_id = '\(receipt)'"
    return [
      "UPDATE profiles SET \(values) WHERE id = '\(user)'",
      "UPDATE profiles SET handle = 'x', \(values)",
      "INSERT INTO profiles (id) VALUES ('\(user)') ON CONFLICT (id) DO UPDATE SET \(values)",
      """
      INSERT INTO profiles (id, premium_product_id) VALUES ('\(user)', 'forged') \
      ON CONFLICT (id) DO UPDATE SET premium_product_id = excluded.premium_product_id
      """,
    ]
  }

  // MARK: Clients

  @Test func `refuse fails a change of premium by any role as which PostgREST acts, and no write-back`()
    async throws
  {
    try await Self.with("refuse") { live in
      let user = live[9]
      for statement in Self.premium(user) {
        #expect(
          try await live.isRefused {
            try await Self.run(statement, as: Self.member, for: user, on: live.pool)
          },
          "\(statement)")
      }
      _ = try await live.pool.query("INSERT INTO user_preferences (user_id) VALUES (\(user))")
      _ = try await live.pool.query("ALTER TABLE user_preferences DISABLE ROW LEVEL SECURITY")
      for change in ["is_premium = true", "bookmark_limit = 999"] {
        #expect(
          try await live.isRefused {
            try await Self.run(
              "UPDATE user_preferences SET \(change)", as: Self.member, for: user, on: live.pool)
          })
      }
      try await Self.run(
        "UPDATE profiles SET handle = 'new', premium_product_id = premium_product_id", as: Self.member,
        for: user,
        on: live.pool)
      #expect(try await live.handle(user) == "new")
      #expect(try await live.profile(user) == ProfileRow())
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `accept and observe treat such a role as they treat old builds`() async throws {
    try await Self.with("accept") { live in
      let user = live[9]
      try await Self.run(Self.premium(user)[0], as: Self.member, for: user, on: live.pool)
      #expect(try await live.profile(user).product == "forged")
      #expect(try await live.clientWrites().map(\.mode) == ["accept"])
      #expect(try await live.clientWrites().map(\.transactionID) == [Self.receipt])
    }
    try await Self.with("observe") { live in
      let user = live[9]
      try await Self.run(Self.premium(user)[1], as: Self.member, for: user, on: live.pool)
      #expect(try await live.profile(user) == ProfileRow())
      #expect(try await live.handle(user) == "x")
      #expect(try await live.clientWrites().map(\.mode) == ["observe"])
    }
  }

  @Test
  func `a write by the owner of the table runs no guard, and one of another role does`()
    async throws
  {
    try await Self.with("accept") { live in
      func change(_ product: String) -> String {
        "EXPLAIN (ANALYZE) UPDATE profiles SET premium_product_id = '\(product)' WHERE id = '\(live[9])'"
      }
      func calls(_ plan: Rows) throws -> [String] {
        try plan.map { try $0.decode("QUERY PLAN", as: String.self) }.filter { $0.contains("receiptd_guard") }
      }
      let ofOwner = try await calls(live.pool.query(Query(unescaped: change("one"))))
      #expect(ofOwner == [])
      let ofBackend = try await calls(Self.run(change("two"), as: Self.backend, on: live.pool))
      #expect(ofBackend.count == 1)
    }
  }

  @Test func `such a role cannot set back the date of its user's row`() async throws {
    try await Self.with("accept") { live in
      func year() async throws -> Int {
        try await live.pool.query(
          "SELECT extract(year FROM created_at)::integer AS year FROM profiles WHERE id = \(live[9])")[0]
          .decode("year")
      }
      let before = try await year()
      let change = "UPDATE profiles SET created_at = '2001-01-01' WHERE id = '\(live[9])'"
      try await Self.run(change, as: Self.member, for: live[9], on: live.pool)
      #expect(try await year() == before)
      // The app's backend may have copied the user from elsewhere.
      try await Self.run(change, as: Self.backend, on: live.pool)
      #expect(try await year() == 2001)
    }
  }

  // MARK: Writers

  @Test func `a backend with a role of its own writes in refuse once premiumWriters lists it`() async throws {
    try await Self.with("refuse") { live in
      func isRefused() async throws -> Bool {
        try await live.isRefused {
          try await Self.run(Self.premium(live[9])[0], as: Self.backend, on: live.pool)
        }
      }
      #expect(try await isRefused())
      let listed = try LiveApps.configuration([SwiftClimb.bundleID: "refuse"]).replacing(
        #""bundleID": "\#(SwiftClimb.bundleID)","#,
        with: #""bundleID": "\#(SwiftClimb.bundleID)", "premiumWriters": ["\#(Self.backend)"],"#)
      let other = try await live.harness.service(configuration: listed)
      try await other.configuredApps.write()
      await other.close()
      #expect(try await !isRefused())
      #expect(try await live.profile(live[9]).product == "forged")
      #expect(try await live.clientWrites().isEmpty)
      // A row of the backend is no claim of a client, and other roles stay clients.
      #expect(
        try await live.isRefused {
          try await Self.run(
            "UPDATE profiles SET premium_product_id = 'other'", as: Self.member, for: live[9], on: live.pool)
        })
      try await live.harness.service.configuredApps.write()
      #expect(
        try await live.isRefused {
          try await Self.run(
            "UPDATE profiles SET premium_product_id = 'again'", as: Self.backend, on: live.pool)
        })
    }
  }

  /// Adds a column of the app, from which a trigger of the app computes the premium status after receiptd's triggers.
  private static func addPlan(_ live: LiveApps) async throws {
    try await LiveTables.run(
      """
      ALTER TABLE user_preferences ADD COLUMN plan text;
      CREATE POLICY "the backend writes" ON user_preferences TO \(backend) USING (true) WITH CHECK (true);
      CREATE FUNCTION public.set_premium() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.is_premium := coalesce(NEW.plan = 'pro', false); RETURN NEW; END $$;
      CREATE TRIGGER set_premium BEFORE INSERT OR UPDATE ON user_preferences
        FOR EACH ROW EXECUTE FUNCTION set_premium();
      INSERT INTO user_preferences (user_id, plan) VALUES ('\(live[9])', 'free');
      """, on: live.pool)
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a trigger of the app sets the premium status for a listed backend`(mode: String) async throws {
    try await Self.with(mode) { live in
      try await Self.addPlan(live)
      _ = try await live.pool.query(
        "UPDATE client_write_modes SET writers = ARRAY[\(Self.backend)] WHERE table_name = 'user_preferences'"
      )
      try await Self.run(
        "UPDATE user_preferences SET plan = 'pro' WHERE user_id = '\(live[9])'", as: Self.backend,
        on: live.pool)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func
    `an unlisted backend that sets the triggers' setting stays a client where a trigger of the app sets the status`(
      mode: String
    ) async throws
  {
    try await Self.with(mode) { live in
      try await Self.addPlan(live)
      let isRefused = try await live.isRefused {
        try await Self.run(
          """
          WITH forged AS MATERIALIZED (SELECT set_config('receiptd.premium_writer', '(server)', true) AS value)
          UPDATE user_preferences SET plan = 'pro' FROM forged
          WHERE forged.value <> '' AND user_id = '\(live[9])'
          """, as: Self.backend, on: live.pool)
      }
      #expect(isRefused == (mode != "accept"))
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == (mode == "accept"))
      #expect(try await live.clientWrites().map(\.mode) == (mode == "accept" ? ["accept"] : []))
    }
  }

  /// Adds a trigger of the app that runs before its others and writes another row with the rights of a role.
  private static func addNestedWrite(by role: String, _ live: LiveApps) async throws {
    try await LiveTables.run(
      """
      INSERT INTO user_preferences (user_id, plan) VALUES ('\(live[8])', 'free') ON CONFLICT DO NOTHING;
      CREATE FUNCTION public.count_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        IF NEW.user_id <> '\(live[8])' THEN
          UPDATE public.user_preferences SET bookmark_limit = bookmark_limit WHERE user_id = '\(live[8])';
        END IF;
        RETURN NEW;
      END $$;
      ALTER FUNCTION count_write() OWNER TO \(role);
      CREATE TRIGGER s_counts BEFORE INSERT OR UPDATE ON user_preferences
        FOR EACH ROW EXECUTE FUNCTION count_write();
      UPDATE client_write_modes SET writers = ARRAY['\(backend)'] WHERE table_name = 'user_preferences';
      CREATE POLICY "members write" ON user_preferences TO \(member) USING (true) WITH CHECK (true);
      """, on: live.pool)
  }

  @Test(arguments: ["accept", "observe", "refuse"])
  func `a nested statement of a listed writer does not make a client one`(mode: String) async throws {
    try await Self.with(mode) { live in
      try await Self.addPlan(live)
      try await Self.addNestedWrite(by: Self.backend, live)
      let isRefused = try await live.isRefused {
        try await Self.run(
          "UPDATE user_preferences SET plan = 'pro' WHERE user_id = '\(live[9])'", as: Self.member,
          for: live[9], on: live.pool)
      }
      #expect(isRefused == (mode != "accept"))
      #expect(try await live.clientWrites().map(\.mode) == (mode == "accept" ? ["accept"] : []))
    }
  }

  @Test func `a nested statement of a client does not refuse the write of a listed writer`() async throws {
    try await Self.with("refuse") { live in
      try await Self.addPlan(live)
      try await Self.addNestedWrite(by: Self.member, live)
      try await Self.run(
        "UPDATE user_preferences SET plan = 'pro' WHERE user_id = '\(live[9])'", as: Self.backend,
        on: live.pool)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
      #expect(try await live.clientWrites().isEmpty)
    }
  }

  @Test func `accept leaves the writes of an unlisted backend`() async throws {
    try await Self.with("accept") { live in
      for statement in Self.premium(live[9]) {
        try await Self.run(statement, as: Self.backend, on: live.pool)
        #expect(try await live.profile(live[9]).product == "forged")
        try await Self.run(
          "UPDATE profiles SET premium_product_id = NULL, premium_original_transaction_id = NULL",
          as: Self.backend,
          on: live.pool)
        #expect(try await live.profile(live[9]) == ProfileRow())
      }
    }
  }

  @Test func `the owner, receiptd_app, service_role, BYPASSRLS and the owner's functions write in refuse`()
    async throws
  {
    try await Self.with("refuse") { live in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_bypass LOGIN BYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        GRANT USAGE ON SCHEMA public TO receiptdtest_bypass;
        GRANT SELECT, UPDATE ON profiles TO receiptdtest_bypass;
        CREATE FUNCTION public.give(product text) RETURNS void LANGUAGE sql SECURITY DEFINER AS
          $$ UPDATE profiles SET premium_product_id = product WHERE id = auth.uid() $$;
        """, on: live.pool)
      let product = "SELECT premium_product_id FROM profiles WHERE id = '\(live[9])'"
      for role in ["receiptd_app", "service_role", "receiptdtest_bypass", "postgres"] {
        try await Self.run(
          "UPDATE profiles SET premium_product_id = '\(role)' WHERE id = '\(live[9])'", as: role,
          on: live.pool)
        let stored = try await live.pool.query(Query(unescaped: product))[0]
        #expect(try stored.decode("premium_product_id", as: String?.self) == role)
      }
      try await Self.run("SELECT give('by function')", as: Self.member, for: live[9], on: live.pool)
      #expect(try await live.profile(live[9]).product == "by function")
    }
  }

  @Test
  func `a row that receiptd added is the app's once its backend or the owner has written a value into it`()
    async throws
  {
    try await Self.with("refuse") { live in
      for (role, handle) in [(Self.backend, "ann"), ("postgres", "ben")] {
        let user = UUID()
        _ = try await live.pool.query("INSERT INTO auth.users (id) VALUES (\(user))")
        _ = try await live.harness.desk.grant(
          to: user.uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: 30,
          by: SupportAuthor.adoption("test"))
        let noted = "added_profile_rows WHERE table_name = 'profiles' AND user_id = '\(user)'"
        #expect(try await live.harness.count(noted) == 1)
        // A server may sign in as the owner, and a trigger sets updated_at with the status.
        let product = "UPDATE profiles SET premium_product_id = 'grant:other' WHERE id = '\(user)'"
        try await Self.run(product, as: "postgres", on: live.pool)
        #expect(try await live.harness.count(noted) == 1)

        try await Self.run(
          "UPDATE profiles SET handle = '\(handle)' WHERE id = '\(user)'", as: role, on: live.pool)
        #expect(try await live.harness.count(noted) == 0)
        try await live.run(
          "INSERT INTO profiles (id) VALUES ('\(user)') ON CONFLICT (id) DO NOTHING", as: user)
        #expect(try await live.handle(user) == handle)
        #expect(try await live.profile(user).product == "grant:other")
        _ = try await live.harness.erase(user.uuidString)
        #expect(try await live.handle(user) == handle)
      }
    }
  }

  // MARK: Doctor

  /// The doctor's lines about the writers of `profiles`, and about its triggers.
  static func lines(_ live: LiveApps, configuration: String? = nil) async throws -> [String] {
    var environment = live.harness.environment
    let file = FileManager.default.temporaryDirectory.appending(path: "doctor-\(UUID()).json")
    defer { try? FileManager.default.removeItem(at: file) }
    if let configuration {
      try Data(configuration.utf8).write(to: file)
      environment["RECEIPTD_CONFIG"] = file.path
    }
    var lines: [String] = []
    _ = await Doctor(environment: environment, clock: live.harness.clock.service).check {
      if $0.subject == "premium writers of profiles" || $0.subject == "table profiles" && !$0.isOK {
        lines.append($0.line)
      }
    }
    return lines
  }

  @Test func `a former owner of the table is a client, and the new owner is not`() async throws {
    try await Self.with("refuse") { live in
      let (former, owner) = ("receiptdtest_former", "receiptdtest_owner")
      try await LiveTables.run(
        """
        DO $roles$ DECLARE name text; BEGIN
          FOREACH name IN ARRAY ARRAY['\(former)', '\(owner)'] LOOP
            BEGIN EXECUTE 'CREATE ROLE ' || name || ' LOGIN';
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
          END LOOP;
        END $roles$;
        GRANT USAGE ON SCHEMA public TO \(former), \(owner);
        ALTER TABLE profiles OWNER TO \(former);
        """, on: live.pool)
      func write(_ product: String, as role: String) async throws {
        try await Self.run(
          "UPDATE profiles SET premium_product_id = '\(product)' WHERE id = '\(live[9])'", as: role,
          on: live.pool)
      }
      try await write("former", as: former)
      #expect(try await live.profile(live[9]).product == "former")
      try await LiveTables.run(
        """
        ALTER TABLE profiles OWNER TO \(owner);
        GRANT SELECT, UPDATE ON profiles TO \(former);
        CREATE POLICY "the former owner writes" ON profiles TO \(former) USING (true) WITH CHECK (true);
        """, on: live.pool)
      #expect(try await live.isRefused { try await write("again", as: former) })
      try await write("owner", as: owner)
      #expect(try await live.profile(live[9]).product == "owner")
      #expect(
        try await Self.lines(live) == [
          "ok    premium writers of profiles: \(Self.backend), \(former), \(Self.member) has rights on them and counts as a "
            + "client: its writes are refused"
        ])
    }
  }

}

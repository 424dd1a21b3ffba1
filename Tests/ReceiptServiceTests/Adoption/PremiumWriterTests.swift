import Actions
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Roles of the database beside Supabase's and receiptd's, with rights on the app's own tables: those of other kinds of clients,
/// as which PostgREST acts, and the app's own backend, which signs in.
@Suite struct PremiumWriterTests {
  private static let member = "receiptdtest_member"
  private static let backend = "receiptdtest_backend"
  private static let receipt = "2000000000001005"

  /// Runs a test where both roles may read and write the tables.
  private static func with(
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
  private static func run(
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

  private static func premium(_ user: UUID) -> [String] {
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
      CREATE FUNCTION set_premium() RETURNS trigger LANGUAGE plpgsql AS
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
      CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
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
        CREATE FUNCTION give(product text) RETURNS void LANGUAGE sql SECURITY DEFINER AS
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
  private static func lines(_ live: LiveApps, configuration: String? = nil) async throws -> [String] {
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

  @Test func `doctor names every other role that may write premium columns`() async throws {
    let subject = "premium writers of profiles"
    try await Self.with("accept") { live in
      #expect(
        try await Self.lines(live) == [
          "warn  \(subject): \(Self.backend), \(Self.member) has rights on them and counts as a client; if it is your own "
            + "backend's role, list it in premiumWriters before clientWrites is refuse"
        ])
      let listed = try LiveApps.configuration([SwiftClimb.bundleID: "accept"]).replacing(
        #""bundleID": "\#(SwiftClimb.bundleID)","#,
        with: #""bundleID": "\#(SwiftClimb.bundleID)", "premiumWriters": ["\#(Self.backend)", "nosuchrole"],"#
      )
      let lines = try await Self.lines(live, configuration: listed)
      #expect(lines.contains { $0.hasPrefix("warn  \(subject): premiumWriters names nosuchrole") })
      #expect(lines.contains { $0.hasPrefix("ok    \(subject): \(Self.backend) may write them too") })
      #expect(lines.contains { $0.hasPrefix("warn  \(subject): \(Self.member) has rights") })

      _ = try await live.pool.query("GRANT TRIGGER ON profiles TO \(unescaped: Self.member)")
      #expect(
        try await Self.lines(live).first
          == "FAIL  \(subject): \(Self.member) may add triggers to the table, which would run with the server's rights; "
          + "REVOKE TRIGGER ON public.profiles FROM \(Self.member)")
      try await LiveTables.run(
        "REVOKE TRIGGER ON profiles FROM \(Self.member); GRANT TRIGGER ON profiles TO PUBLIC", on: live.pool)
      let ofPublic = try await Self.lines(live)
      #expect(
        ofPublic.first?.hasSuffix("REVOKE TRIGGER ON public.profiles FROM PUBLIC") == true, "\(ofPublic)")
      _ = try await live.pool.query("REVOKE TRIGGER ON public.profiles FROM PUBLIC")
      #expect(try await !Self.lines(live).contains { $0.hasPrefix("FAIL") })
    }
    try await Self.with("refuse") { live in
      let lines = try await Self.lines(live)
      #expect(
        lines == [
          "ok    \(subject): \(Self.backend), \(Self.member) has rights on them and counts as a client: its writes are refused"
        ])
    }
  }

  @Test func `doctor names the roles that can get around a mode`() async throws {
    try await Self.with("refuse") { live in
      let stored = try #require(
        try await ClientWriteModes.read(live.pool).first { $0.table == "profiles" })
      let version = try await live.pool.query(
        "SELECT current_setting('server_version_num')::bigint AS number")[0].decode("number", as: Int.self)
      var statements = [
        "CREATE ROLE receiptdtest_undone_takes NOINHERIT IN ROLE receiptd_app",
        "CREATE ROLE receiptdtest_undone_makes CREATEROLE",
        "CREATE ROLE receiptdtest_undone_moves", "GRANT UPDATE (id) ON profiles TO receiptdtest_undone_moves",
        "CREATE ROLE receiptdtest_undone_stops", "GRANT UPDATE (id) ON profiles TO receiptdtest_undone_stops",
      ]
      if version >= 150_000 {
        statements.append(
          "GRANT SET ON PARAMETER session_replication_role TO receiptdtest_undone_stops")
      }
      let lines = try await Self.undone(statements, on: live.pool) { connection in
        try await PremiumWriters.read(stored, configured: [], on: connection).results.map(\.line)
      }
      let subject = "premium writers of profiles"
      let taking = (version < 160_000 ? ["makes", "takes"] : ["takes"]).map { "receiptdtest_undone_\($0)" }
      #expect(
        lines.contains {
          $0.hasPrefix("warn  \(subject): \(taking.joined(separator: ", ")) may act as a writer")
        }, "\(lines)")
      let clients = [Self.backend, Self.member, "receiptdtest_undone_moves"].joined(separator: ", ")
      if version >= 150_000 {
        #expect(
          lines.first?.hasPrefix(
            "FAIL  \(subject): receiptdtest_undone_stops may set session_replication_role")
            == true, "\(lines)")
        #expect(lines.last?.hasPrefix("ok    \(subject): \(clients) has rights on them") == true, "\(lines)")
      }
    }
  }

  @Test func `doctor fails where sessions of clients begin without the triggers`() async throws {
    try await Self.with("refuse") { live in
      let stored = try #require(
        try await ClientWriteModes.read(live.pool).first { $0.table == "profiles" })
      let database = try await live.pool.query("SELECT quote_ident(current_database()) AS name")[0]
        .decode("name", as: String.self)
      let role = "receiptdtest_undone_signs_in"
      for subject in ["DATABASE \(database)", "ROLE \(role)", "ROLE \(role) IN DATABASE \(database)"] {
        let statements = [
          "CREATE ROLE \(role) LOGIN NOINHERIT IN ROLE authenticated",
          "ALTER \(subject) SET session_replication_role = replica",
        ]
        let lines = try await Self.undone(statements, on: live.pool) { connection in
          try await PremiumWriters.read(stored, configured: [], on: connection).results.map(\.line)
        }
        #expect(
          lines.contains {
            $0.hasPrefix(
              "FAIL  premium writers of profiles: sessions begin with session_replication_role set")
              && $0.hasSuffix("ALTER \(subject) RESET session_replication_role")
          }, "\(lines)")
      }
    }
  }

  /// Runs statements and reads what they make of the roles, which belong to the cluster, and undoes all.
  private static func undone(
    _ statements: [String], on pool: PostgresPool, _ read: (PostgresConnection) async throws -> [String]
  ) async throws -> [String] {
    struct Undo: Error {
      let lines: [String]
    }
    do {
      try await pool.withTransaction { connection in
        for statement in statements { _ = try await connection.query(Query(unescaped: statement)) }
        throw Undo(lines: try await read(connection))
      }
    } catch let undo as Undo {
      return undo.lines
    }
    return []
  }

  @Test func `doctor names the functions by which clients may write with a writer's rights`() async throws {
    try await Self.with("refuse") { live in
      try await LiveTables.run(
        """
        CREATE FUNCTION give(product text) RETURNS void LANGUAGE sql SECURITY DEFINER AS
          $$ UPDATE profiles SET premium_product_id = product WHERE id = auth.uid() $$;
        CREATE FUNCTION run_text(query text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
          $$ BEGIN EXECUTE query; END $$;
        CREATE FUNCTION has_profile() RETURNS boolean LANGUAGE sql SECURITY DEFINER AS
          $$ SELECT EXISTS (SELECT FROM profiles WHERE id = auth.uid()) $$;
        CREATE FUNCTION own_rights(query text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE query; END $$;
        CREATE FUNCTION signs_up() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
          $$ BEGIN INSERT INTO profiles (id) VALUES (NEW.id); RETURN NEW; END $$;
        """, on: live.pool)
      let start = "warn  premium writers of profiles: clients may call"
      let lines = try await Self.lines(live).filter { $0.hasPrefix(start) }
      #expect(lines.count == 1)
      #expect(
        lines.first?.hasPrefix("\(start) give(text), run_text(text), SECURITY DEFINER") == true, "\(lines)")
      // The names of many functions do not hide how many there are.
      try await LiveTables.run(
        """
        DO $many$ BEGIN
          FOR number IN 10..34 LOOP
            EXECUTE format('CREATE FUNCTION a_%s() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS '
              '$body$ BEGIN EXECUTE ''SELECT 1''; END $body$', number);
          END LOOP;
        END $many$;
        """, on: live.pool)
      let many = try await Self.lines(live).filter { $0.hasPrefix(start) }
      #expect(many.first?.contains(", a_29() and 7 more, SECURITY DEFINER") == true, "\(many)")
      try await LiveTables.run(
        """
        DO $many$ BEGIN
          FOR number IN 10..34 LOOP EXECUTE format('DROP FUNCTION a_%s()', number); END LOOP;
        END $many$;
        """, on: live.pool)
      try await LiveTables.run(
        "REVOKE EXECUTE ON FUNCTION give(text), run_text(text) FROM PUBLIC, anon, authenticated, service_role",
        on: live.pool)
      #expect(try await !Self.lines(live).contains { $0.hasPrefix(start) })
    }
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

  @Test func `doctor fails where a role may not run the function that the guards ask`() async throws {
    try await Self.with("refuse") { live in
      _ = try await live.pool.query(
        "REVOKE EXECUTE ON FUNCTION receiptd_writes_premium(regclass, text) FROM PUBLIC")
      let lines = try await Self.lines(live)
      #expect(
        lines.first
          == "FAIL  table profiles: its triggers ask receiptd_writes_premium(), which not every role may run: writes of other "
          + "roles fail; as the tables' owner, run SELECT receiptd_set_common_rights()", "\(lines)")
      _ = try await live.pool.query("SELECT receiptd_set_common_rights()")
      #expect(try await Self.lines(live).allSatisfy { $0.hasPrefix("ok ") })
    }
  }

  @Test func `doctor fails where the former migration's triggers came back, and the later one mends them`()
    async throws
  {
    try await Self.with("refuse") { live in
      func apply(_ file: String) async throws {
        let script = try String(contentsOfFile: "\(Harness.migrations)/\(file).sql", encoding: .utf8)
        try await LiveTables.run("BEGIN; \(script); COMMIT", on: live.pool)
      }
      try await apply("20260420_client_writes")
      let lines = try await Self.lines(live)
      #expect(
        lines.contains {
          $0.contains("the trigger receiptd_guard_premium_update is missing or disabled")
            && $0.contains("and then migrations/20261123_client_writers.sql")
        })
      try await apply("20261123_client_writers")
      #expect(try await Self.lines(live).allSatisfy { $0.hasPrefix("ok ") })
      #expect(
        try await live.isRefused {
          try await Self.run(Self.premium(live[9])[0], as: Self.member, for: live[9], on: live.pool)
        })
    }
  }
}

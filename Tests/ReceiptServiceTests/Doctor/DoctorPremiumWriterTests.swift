import Actions
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Adoption
@testable import ReceiptService
@testable import Support

/// Roles and functions by which clients may write premium columns, as `doctor` names them.
@Suite struct DoctorPremiumWriterTests {
  @Test func `doctor names every other role that may write premium columns`() async throws {
    let subject = "premium writers of profiles"
    try await PremiumWriterTests.with("accept") { live in
      #expect(
        try await PremiumWriterTests.lines(live) == [
          "warn  \(subject): \(PremiumWriterTests.backend), \(PremiumWriterTests.member) has rights on them and counts as a client; if it is your own "
            + "backend's role, list it in premiumWriters before clientWrites is refuse"
        ])
      let listed = try LiveApps.configuration([SwiftClimb.bundleID: "accept"]).replacing(
        #""bundleID": "\#(SwiftClimb.bundleID)","#,
        with:
          #""bundleID": "\#(SwiftClimb.bundleID)", "premiumWriters": ["\#(PremiumWriterTests.backend)", "nosuchrole"],"#
      )
      let lines = try await PremiumWriterTests.lines(live, configuration: listed)
      #expect(lines.contains { $0.hasPrefix("warn  \(subject): premiumWriters names nosuchrole") })
      #expect(
        lines.contains { $0.hasPrefix("ok    \(subject): \(PremiumWriterTests.backend) may write them too") })
      #expect(lines.contains { $0.hasPrefix("warn  \(subject): \(PremiumWriterTests.member) has rights") })

      _ = try await live.pool.query("GRANT TRIGGER ON profiles TO \(unescaped: PremiumWriterTests.member)")
      #expect(
        try await PremiumWriterTests.lines(live).first
          == "FAIL  \(subject): \(PremiumWriterTests.member) may add triggers to the table, which would run with the server's rights; "
          + "REVOKE TRIGGER ON public.profiles FROM \(PremiumWriterTests.member)")
      try await LiveTables.run(
        "REVOKE TRIGGER ON profiles FROM \(PremiumWriterTests.member); GRANT TRIGGER ON profiles TO PUBLIC",
        on: live.pool)
      let ofPublic = try await PremiumWriterTests.lines(live)
      #expect(
        ofPublic.first?.hasSuffix("REVOKE TRIGGER ON public.profiles FROM PUBLIC") == true, "\(ofPublic)")
      _ = try await live.pool.query("REVOKE TRIGGER ON public.profiles FROM PUBLIC")
      #expect(try await !PremiumWriterTests.lines(live).contains { $0.hasPrefix("FAIL") })
    }
    try await PremiumWriterTests.with("refuse") { live in
      let lines = try await PremiumWriterTests.lines(live)
      #expect(
        lines == [
          "ok    \(subject): \(PremiumWriterTests.backend), \(PremiumWriterTests.member) has rights on them and counts as a client: its writes are refused"
        ])
    }
  }

  @Test(arguments: ["receiptdtest_reached_bypass", "receiptdtest_reached_owner"])
  func `doctor fails where PostgREST may act as a writer`(role: String) async throws {
    try await PremiumWriterTests.with("refuse") { live in
      try await LiveTables.run(
        """
        DO $roles$ DECLARE statement text; BEGIN
          FOREACH statement IN ARRAY ARRAY['CREATE ROLE authenticator LOGIN NOINHERIT', 'CREATE ROLE \(role)_tables',
            'CREATE ROLE \(role) \(role.hasSuffix("bypass") ? "BYPASSRLS" : "IN ROLE \(role)_tables")',
            'GRANT \(role) TO authenticator'] LOOP
            BEGIN EXECUTE statement;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
          END LOOP;
        END $roles$;
        GRANT ALL ON SCHEMA public TO \(role)_tables;
        GRANT SELECT, UPDATE ON profiles TO \(role);
        ALTER TABLE profiles OWNER TO \(role)_tables;
        """, on: live.pool)
      let lines = try await PremiumWriterTests.lines(live)
      #expect(
        lines.contains {
          $0.hasPrefix("FAIL  premium writers of profiles: PostgREST may act as \(role) for clients")
        }, "\(lines)")
    }
  }

  @Test func `doctor names a role that inherits from the owner of the table`() async throws {
    try await PremiumWriterTests.with("refuse") { live in
      try await LiveTables.run(
        """
        DO $roles$ DECLARE statement text; BEGIN
          FOREACH statement IN ARRAY ARRAY['CREATE ROLE receiptdtest_tables',
            'CREATE ROLE receiptdtest_of_tables IN ROLE receiptdtest_tables'] LOOP
            BEGIN EXECUTE statement;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
          END LOOP;
        END $roles$;
        GRANT ALL ON SCHEMA public TO receiptdtest_tables;
        ALTER TABLE profiles OWNER TO receiptdtest_tables;
        """, on: live.pool)
      let lines = try await PremiumWriterTests.lines(live)
      #expect(
        lines.contains {
          $0.hasPrefix("ok    premium writers of profiles: ") && $0.contains("receiptdtest_of_tables")
            && $0.hasSuffix("may write them too, by premiumWriters, BYPASSRLS or membership")
        }, "\(lines)")
    }
  }

  @Test func `doctor fails where a client's token may name one of receiptd's roles`() async throws {
    try await PremiumWriterTests.with("refuse") { live in
      let create = """
        DO $$ BEGIN CREATE ROLE authenticator LOGIN NOINHERIT;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$
        """
      func lines(_ statements: [String]) async throws -> [String] {
        try await Self.undone(statements, on: live.pool) { connection in
          [try await Doctor.rolesOfClients(on: connection)?.line].compactMap(\.self)
        }
      }
      let failed = try await lines([create, "GRANT receiptd_app TO authenticator"])
      #expect(
        failed.count == 1
          && failed[0].hasPrefix("FAIL  roles of clients: authenticator may act as receiptd_app"),
        "\(failed)")
      #expect(try await lines([create]) == [])
    }
  }

  @Test func `doctor names the roles that can get around a mode`() async throws {
    try await PremiumWriterTests.with("refuse") { live in
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
      let clients = [PremiumWriterTests.backend, PremiumWriterTests.member, "receiptdtest_undone_moves"]
        .joined(separator: ", ")
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
    try await PremiumWriterTests.with("refuse") { live in
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
    try await PremiumWriterTests.with("refuse") { live in
      try await LiveTables.run(
        """
        CREATE FUNCTION public.give(product text) RETURNS void LANGUAGE sql SECURITY DEFINER AS
          $$ UPDATE profiles SET premium_product_id = product WHERE id = auth.uid() $$;
        CREATE FUNCTION public.run_text(query text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
          $$ BEGIN EXECUTE query; END $$;
        CREATE FUNCTION public.has_profile() RETURNS boolean LANGUAGE sql SECURITY DEFINER AS
          $$ SELECT EXISTS (SELECT FROM profiles WHERE id = auth.uid()) $$;
        CREATE FUNCTION public.own_rights(query text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE query; END $$;
        CREATE FUNCTION public.signs_up() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
          $$ BEGIN INSERT INTO profiles (id) VALUES (NEW.id); RETURN NEW; END $$;
        """, on: live.pool)
      let start = "warn  premium writers of profiles: clients may call"
      let lines = try await PremiumWriterTests.lines(live).filter { $0.hasPrefix(start) }
      #expect(lines.count == 1)
      #expect(
        lines.first?.hasPrefix("\(start) give(text), run_text(text), SECURITY DEFINER") == true, "\(lines)")
      // The names of many functions do not hide how many there are.
      try await LiveTables.run(
        """
        DO $many$ BEGIN
          FOR number IN 10..34 LOOP
            EXECUTE format('CREATE FUNCTION public.a_%s() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS '
              '$body$ BEGIN EXECUTE ''SELECT 1''; END $body$', number);
          END LOOP;
        END $many$;
        """, on: live.pool)
      let many = try await PremiumWriterTests.lines(live).filter { $0.hasPrefix(start) }
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
      #expect(try await !PremiumWriterTests.lines(live).contains { $0.hasPrefix(start) })
    }
  }

  @Test func `doctor fails where a role may not run the function that the guards ask`() async throws {
    try await PremiumWriterTests.with("refuse") { live in
      _ = try await live.pool.query(
        "REVOKE EXECUTE ON FUNCTION receiptd_writes_premium(regclass, text) FROM PUBLIC")
      let lines = try await PremiumWriterTests.lines(live)
      #expect(
        lines.first
          == "FAIL  table profiles: its triggers ask receiptd_writes_premium(), which not every role may run: writes of other "
          + "roles fail; as the tables' owner, run SELECT receiptd_set_common_rights()", "\(lines)")
      _ = try await live.pool.query("SELECT receiptd_set_common_rights()")
      #expect(try await PremiumWriterTests.lines(live).allSatisfy { $0.hasPrefix("ok ") })
    }
  }

  @Test func `doctor fails where the former migration's triggers came back, and its remedy mends them`()
    async throws
  {
    try await PremiumWriterTests.with("refuse") { live in
      for table in ["profiles", "user_preferences"] {
        try await LiveTables.run(
          """
          DROP TRIGGER receiptd_guard_premium_update ON \(table);
          CREATE TRIGGER receiptd_guard_premium_update BEFORE UPDATE ON \(table) FOR EACH ROW
            WHEN (current_user IN ('anon', 'authenticated')) EXECUTE FUNCTION receiptd_guard_\(table)();
          """, on: live.pool)
      }
      let lines = try await PremiumWriterTests.lines(live)
      #expect(
        lines.contains {
          $0.contains("the trigger receiptd_guard_premium_update is missing or disabled")
            && $0.contains("run SELECT receiptd_set_guards()")
        })
      _ = try await live.pool.query("SELECT receiptd_set_guards()")
      #expect(try await PremiumWriterTests.lines(live).allSatisfy { $0.hasPrefix("ok ") })
      #expect(
        try await live.isRefused {
          try await PremiumWriterTests.run(
            PremiumWriterTests.premium(live[9])[0], as: PremiumWriterTests.member, for: live[9], on: live.pool
          )
        })
    }
  }
}

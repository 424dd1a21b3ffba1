import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Customers
@testable import ReceiptService

/// The guard of sign-up dates: a Supabase user cannot get a grandfather grant by changing the date of their row.
@Suite struct GrandfatherDateTests {
  private static let configuration = TestApps.configuration(writeTo: #"["profiles"]"#).replacing(
    #""free": { "features": { "insights""#,
    with: #""grandfather": { "before": "2025-10-07T00:00:00Z", "tier": "premium" }, "#
      + #""free": { "features": { "insights""#)

  /// A migrated app on Supabase with dates in `profiles`, and in `auth.users` if `inUsers`.
  private func withDates(
    inUsers: Bool, role: String? = nil, _ body: (Supabase, Harness) async throws -> Void
  ) async throws {
    try await Supabase.with(.own) { supabase in
      let pool = supabase.pool
      _ = try await pool.query("UPDATE profiles SET premium_expires_at = NULL, premium_product_id = NULL")
      _ = try await pool.query(
        "ALTER TABLE profiles ADD COLUMN created_at timestamptz NOT NULL DEFAULT '2026-01-01Z'")
      if inUsers {
        _ = try await pool.query(
          "ALTER TABLE auth.users ADD COLUMN created_at timestamptz DEFAULT '2026-01-01Z'")
      }
      _ = try await pool.query("SELECT receiptd_open_to_application()")
      let harness = try await Harness(
        databaseURL: role.map(supabase.database.uri(role:)) ?? supabase.database.uri,
        configuration: Self.configuration, ownerURL: supabase.database.uri)
      do {
        try await body(supabase, harness)
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }

  /// Commits a statement as PostgREST runs it for a user.
  private func commit(_ statement: String, by user: UUID, _ supabase: Supabase) async throws {
    try await supabase.pool.withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE authenticated")
      let claims = #"{"sub": "\#(user.uuidString.lowercased())", "role": "authenticated"}"#
      _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
      _ = try await connection.query(Query(unescaped: statement))
    }
  }

  private func date(of user: UUID, _ supabase: Supabase) async throws -> Date {
    try await supabase.pool.query("SELECT created_at FROM profiles WHERE id = \(user)")[0].decode(
      "created_at")
  }

  @Test func `no statement of a Supabase client changes a sign-up date that only the app's table has`()
    async throws
  {
    try await withDates(inUsers: false) { supabase, harness in
      let user = supabase.users[0]
      let id = "'\(user.uuidString.lowercased())'"
      let before = try await date(of: user, supabase)
      for statement in [
        "UPDATE profiles SET created_at = '2020-01-01Z'",
        "UPDATE profiles SET created_at = NULL, username = 'x'",
        """
        INSERT INTO profiles (id, created_at) VALUES (\(id), '2020-01-01Z')
        ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at
        """,
        "INSERT INTO profiles (id) VALUES (\(id)) ON CONFLICT (id) DO UPDATE SET created_at = '2020-01-01Z'",
      ] {
        try? await commit(statement, by: user, supabase)
        #expect(try await date(of: user, supabase) == before, "\(statement)")
      }
      try await commit("DELETE FROM profiles WHERE id = \(id)", by: user, supabase)
      try await commit(
        "INSERT INTO profiles (id, username, created_at) VALUES (\(id), 'x', '2020-01-01Z')", by: user,
        supabase)
      #expect(try await date(of: user, supabase) > before)
      let dry = try await harness.service.grandfather(isDryRun: true)
      #expect(dry.map(\.found) == [0])
      #expect(dry[0].description.contains("(profiles.created_at)"))
    }
  }

  @Test func `a created_at that clients may change gives no user an award`() async throws {
    try await withDates(inUsers: false) { supabase, harness in
      _ = try await supabase.pool.query("CREATE DOMAIN instant AS timestamptz")
      _ = try await supabase.pool.query("ALTER TABLE profiles ALTER COLUMN created_at TYPE instant")
      try await commit(
        "UPDATE profiles SET created_at = '2020-01-01Z'", by: supabase.users[0], supabase)
      let dry = try await harness.service.grandfather(isDryRun: true)
      #expect(dry.map(\.found) == [0])
      #expect(dry[0].description.contains("the users' sign-up dates are unknown"))
    }
  }

  @Test func `a Supabase client can write the same or a rounded sign-up date together with other columns`()
    async throws
  {
    try await withDates(inUsers: false) { supabase, _ in
      let user = supabase.users[0]
      _ = try await supabase.pool.query("UPDATE profiles SET created_at = '2026-01-01T00:00:00.123456Z'")
      let before = try await date(of: user, supabase)
      for (name, value) in [("same", "created_at"), ("rounded", "date_trunc('milliseconds', created_at)")] {
        try await commit(
          """
          INSERT INTO profiles (id, username, created_at)
          SELECT id, '\(name)', \(value) FROM profiles
          ON CONFLICT (id) DO UPDATE SET username = excluded.username, created_at = excluded.created_at
          """, by: user, supabase)
        #expect(try await date(of: user, supabase) == before)
        let written = try await supabase.pool.query("SELECT username FROM profiles WHERE id = \(user)")[0]
        #expect(try written.decode("username", as: String.self) == name)
      }
      // The session's style of dates does not count, also where its zone has an ambiguous abbreviation.
      for (style, zone) in [
        ("Postgres", "Asia/Shanghai"), ("SQL", "Asia/Kolkata"), ("German", "Europe/Dublin"),
      ] {
        try await commit(
          """
          DO $$ BEGIN
            SET LOCAL datestyle = '\(style)';
            SET LOCAL timezone = '\(zone)';
            UPDATE profiles SET username = '\(style)';
          END $$
          """, by: user, supabase)
        #expect(try await date(of: user, supabase) == before, "\(style)")
      }
      // The server and the operator may still set it.
      _ = try await supabase.pool.query("UPDATE profiles SET created_at = '2020-01-01Z' WHERE id = \(user)")
      #expect(try await date(of: user, supabase) < before)
    }
  }

  @Test func `the later of the sign-up dates in auth.users and the app's table counts`() async throws {
    try await withDates(inUsers: true) { supabase, harness in
      // The first user changed the date before the guard existed; the second really is old.
      _ = try await supabase.pool.query("UPDATE profiles SET created_at = '2020-01-01Z'")
      _ = try await supabase.pool.query(
        "UPDATE auth.users SET created_at = '2025-01-01Z' WHERE id = \(supabase.users[1])")
      // A row whose user was deleted.
      _ = try await supabase.pool.query("ALTER TABLE profiles DROP CONSTRAINT profiles_id_fkey")
      _ = try await supabase.pool.query(
        "INSERT INTO profiles (id, created_at) VALUES (gen_random_uuid(), '2020-01-01Z')")
      let dry = try await harness.service.grandfather(isDryRun: true)
      #expect(dry.map(\.found) == [1])
      #expect(dry[0].description.contains("auth.users.created_at"))
      #expect(dry[0].description.contains("1 row from before has no user in auth.users"))
      #expect(try await harness.service.grandfather(isDryRun: false).map(\.awarded) == [1])
      let awarded = try await supabase.pool.query("SELECT user_id FROM grants")
      #expect(try awarded.map { try $0.decode("user_id", as: UUID.self) } == [supabase.users[1]])
    }
  }

  @Test func `the grandfather command reports a role that cannot read auth.users and uses the app's table`()
    async throws
  {
    try await withDates(inUsers: true, role: "receiptd_app") { supabase, harness in
      try? await commit(
        "UPDATE profiles SET created_at = '2020-01-01Z'", by: supabase.users[0], supabase)
      _ = try await supabase.pool.query(
        "UPDATE profiles SET created_at = '2025-01-01Z' WHERE id = \(supabase.users[1])")
      let dry = try await harness.service.grandfather(isDryRun: true)
      #expect(dry.map(\.found) == [1])
      #expect(dry[0].description.contains("profiles.created_at; this role may not read auth.users"))
    }
  }
}

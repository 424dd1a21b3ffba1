import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The doctor's checks of what roles may read and write.
@Suite struct DoctorRoleTests {
  private static func lines(_ harness: Harness) async -> [String] {
    var lines: [String] = []
    _ = await Doctor(environment: harness.environment).check {
      if $0.subject.hasPrefix("schema ") || ["support role", "other roles", "rights"].contains($0.subject) {
        lines.append($0.line)
      }
    }
    return lines
  }

  @Test(arguments: [
    (
      "GRANT SELECT ON notifications TO receiptd_support",
      "receiptd_support may read notifications.envelope_claims"
    ),
    (
      "GRANT SELECT (header) ON jws_headers TO receiptd_support",
      "receiptd_support may read jws_headers.header"
    ),
    (
      "GRANT SELECT ON ALL TABLES IN SCHEMA public, receiptd TO receiptd_numbers",
      "receiptd_numbers may read console_sessions.secret_hash, device_secrets.secret_hash"
    ),
    ("GRANT SELECT ON log_keys TO PUBLIC", "public may read log_keys.key"),
  ])
  func `a role that may read a secret column is reported, with a remedy that helps`(
    grant: String, line: String
  ) async throws {
    try await withHarness { harness in
      #expect(
        await Self.lines(harness) == [
          "ok    support role: receiptd_support can read the views, and no secret"
        ])
      _ = try await harness.pool.query(Query(unescaped: grant))
      let lines = await Self.lines(harness).filter { !$0.contains(" rights: ") }
      #expect(lines.first?.hasPrefix("FAIL  support role: ") == true)
      #expect(lines.first?.contains(line) == true, "\(lines)")
      #expect(lines.first?.contains("run SELECT receiptd_set_rights()") == true)
      _ = try await harness.pool.query("SELECT receiptd_set_rights()")
      #expect(
        await Self.lines(harness) == [
          "ok    support role: receiptd_support can read the views, and no secret"
        ])
    }
  }

  @Test(arguments: [
    ("GRANT ALL ON support_actions TO receiptd_app", "warn  rights: receiptd_app may DELETE, "),
    ("GRANT UPDATE ON events TO receiptd_app", "warn  rights: receiptd_app may UPDATE events"),
    ("GRANT INSERT ON grants TO receiptd_support", "FAIL  rights: receiptd_support may INSERT grants"),
    (
      "GRANT SELECT (properties) ON events TO receiptd_support",
      "FAIL  rights: receiptd_support may SELECT events"
    ),
    ("GRANT SELECT ON trials TO receiptd_numbers", "FAIL  rights: receiptd_numbers may SELECT trials"),
    ("GRANT SELECT ON kpi_daily TO PUBLIC", "FAIL  rights: PUBLIC may SELECT kpi_daily"),
    (
      "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO receiptd_numbers",
      "FAIL  rights: receiptd_numbers may run receiptd_"
    ),
    (
      "GRANT SELECT ON trials TO receiptd_app WITH GRANT OPTION",
      "warn  rights: receiptd_app may SELECT trials"
    ),
  ])
  func `a right that the list does not have is reported, with a remedy that helps`(
    grant: String, line: String
  ) async throws {
    try await withHarness { harness in
      func lines() async -> [String] { await Self.lines(harness).filter { $0.contains(" rights: ") } }
      #expect(await lines() == [])
      _ = try await harness.pool.query(Query(unescaped: grant))
      let reported = await lines()
      #expect(reported.count == 1)
      #expect(reported.first?.hasPrefix(line) == true, "\(reported)")
      #expect(reported.first?.hasSuffix("run SELECT receiptd_set_rights()") == true)
      _ = try await harness.pool.query("SELECT receiptd_set_rights()")
      #expect(await lines() == [])
    }
  }

  @Test func `rights of clients that no policy limits are reported`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      func lines() async throws -> [String] {
        try await [Doctor(environment: [:]).rightsBeyondTheList(supabase.pool)].compactMap { $0?.line }
      }
      #expect(try await lines() == [])
      try await LiveTables.run(
        """
        ALTER TABLE profiles ADD COLUMN IF NOT EXISTS created_at timestamptz;
        GRANT DELETE ON grants TO anon; GRANT TRUNCATE, SELECT ON profiles TO anon, PUBLIC;
        GRANT SELECT (created_at) ON profiles TO receiptd_app, receiptd_support;
        """, on: supabase.pool)
      #expect(
        try await lines() == [
          "FAIL  rights: PUBLIC may TRUNCATE profiles; anon may DELETE grants; anon may TRUNCATE profiles; as the tables' owner, run SELECT receiptd_set_rights()"
        ])
      _ = try await supabase.pool.query("SELECT receiptd_set_rights()")
      #expect(try await lines() == [])
    }
  }

  @Test func `a view that runs with the rights of its owner is named, with a remedy that helps`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      func result() async throws -> CheckResult? {
        try await Doctor(environment: [:]).viewsOfOwner(supabase.pool)
      }
      #expect(try await result() == nil)
      try await LiveTables.run(
        """
        ALTER VIEW support_timeline RESET (security_invoker);
        ALTER VIEW kpi_daily SET (security_invoker = off);
        CREATE VIEW public.trials AS SELECT * FROM receiptd.trials;
        """, on: supabase.pool)
      let found = try #require(try await result())
      #expect(
        found.line.hasPrefix(
          "FAIL  views: public.kpi_daily, public.support_timeline, public.trials: read with the rights of the owner"
        ))
      try await LiveTables.run(try #require(found.remedy), on: supabase.pool)
      #expect(try await result() == nil)
    }
  }

  @Test(arguments: [
    "GRANT INSERT ON grants", "GRANT SELECT ON notifications", "GRANT UPDATE ON subscriptions",
    "GRANT UPDATE (user_id) ON subscriptions", "GRANT TRUNCATE ON grants",
  ])
  func `a role that receiptd does not know is named`(grant: String) async throws {
    try await withHarness { harness in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_other;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        \(grant) TO receiptdtest_other;
        """, on: harness.pool)
      let lines = await Self.lines(harness)
      #expect(
        lines.last?.hasPrefix(
          "warn  other roles: receiptdtest_other may read secrets of receiptd or write its tables")
          == true, "\(lines)")
    }
  }

  @Test func `a role that may create functions for servers to run is reported, with a remedy that helps`()
    async throws
  {
    try await withHarness { harness in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_other;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        GRANT CREATE ON SCHEMA public TO PUBLIC, receiptd_support, receiptdtest_other;
        """, on: harness.pool)
      func line() async -> String? { await Self.lines(harness).first { $0.contains("schema public: ") } }
      let roles = "PUBLIC, receiptd_support, receiptdtest_other"
      #expect(await line()?.hasPrefix("FAIL  schema public: \(roles) may create functions in it") == true)
      #expect(await line()?.hasSuffix("REVOKE CREATE ON SCHEMA public FROM \(roles)") == true)
      _ = try await harness.pool.query("SELECT receiptd_set_rights()")
      #expect(await line()?.hasPrefix("FAIL  schema public: receiptdtest_other may create") == true)
      _ = try await harness.pool.query("REVOKE CREATE ON SCHEMA public FROM receiptdtest_other")
      #expect(await line() == nil)

      _ = try await harness.pool.query("GRANT CREATE ON SCHEMA receiptd TO receiptdtest_other")
      #expect(
        await Self.lines(harness).last?.hasSuffix("REVOKE CREATE ON SCHEMA receiptd FROM receiptdtest_other")
          == true)
      _ = try await harness.pool.query("SELECT receiptd_set_rights()")
      #expect(await !Self.lines(harness).contains { $0.contains("schema receiptd: ") })
    }
  }

  @Test func `a session that does not look into the schema receiptd is reported, with a remedy`() async throws
  {
    try await withHarness { harness in
      var environment = harness.environment
      environment["DATABASE_POOLER"] = "session"
      var lines: [String] = []
      _ = await Doctor(environment: environment).check { lines.append($0.line) }
      #expect(
        lines.contains {
          $0.hasPrefix("FAIL  search_path: it is \"$user\", public, so this role does not find")
            && $0.contains("SET search_path = receiptd, public")
        }, "\(lines)")
    }
  }

  @Test
  func `another role's schema with the name of the server's role is reported, and no server looks into it`()
    async throws
  {
    try await withHarness { harness in
      try await LiveTables.run(
        """
        DO $role$ BEGIN CREATE ROLE receiptdtest_other;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $role$;
        CREATE SCHEMA receiptd_app AUTHORIZATION receiptdtest_other;
        """, on: harness.pool)
      let lines = await Self.lines(harness)
      #expect(
        lines.last
          == "FAIL  schema receiptd_app: it is receiptdtest_other's and named like a role of the server: sessions of "
          + "that role look for functions in it first; ALTER SCHEMA receiptd_app RENAME TO …", "\(lines)")
      let path = try await harness.pool.query("SELECT current_setting('search_path') AS path")
      #expect(try path[0].decode("path", as: String.self) == "receiptd,public")
    }
  }
}

import Foundation
import Postgres
import Testing

@testable import ReceiptService

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

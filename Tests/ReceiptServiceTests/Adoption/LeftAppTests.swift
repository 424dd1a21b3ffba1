import Actions
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Adoption
@testable import Customers
@testable import ReceiptService
@testable import Support

/// An app leaves the configuration, by mistake or for a while, and comes back.
@Suite struct LeftAppTests {
  /// The configuration of these tests without Thaqalayn, the only app that writes to `user_preferences`.
  private static func left(_ clientWrites: [String: String] = [:]) throws -> String {
    let text = try LiveApps.configuration(clientWrites)
    var file = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    let apps = try #require(file["apps"] as? [[String: Any]])
    file["apps"] = apps.filter { $0["bundleID"] as? String != Thaqalayn.bundleID }
    return String(decoding: try JSONSerialization.data(withJSONObject: file), as: UTF8.self)
  }

  /// Runs `body` with a server without Thaqalayn.
  private static func withLeft(
    _ live: LiveApps, _ clientWrites: [String: String] = [:], _ body: (Service) async throws -> Void
  ) async throws {
    let service = try await live.harness.service(configuration: left(clientWrites))
    try await service.configuredApps.write()
    try await body(service)
    await service.close()
  }

  @Test(arguments: ["accept", "refuse"])
  func `the premium row of a customer who was erased while the app was not configured gets no award`(
    mode: String
  )
    async throws
  {
    let modes = [Thaqalayn.bundleID: mode]
    try await LiveApps.with(modes) { live in
      _ = try await live.adopt(Thaqalayn.bundleID)
      // Premium by a client's word, and by a grant for a day.
      let written = try? await live.writesIsPremium(live[8])
      #expect((written == true) == (mode == "accept"))
      try await grants(live, to: live[9])
      try await Self.withLeft(live, modes) { service in
        let author = try #require(Harness.makeAuthor("ada", "asked by letter"))
        _ = try await service.support.eraseCustomer(
          live[9].uuidString, bundleID: Thaqalayn.bundleID, by: author, isForced: true)
      }
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
      try await live.harness.service.configuredApps.write()
      for _ in 0..<2 {
        let report = try await live.adopt(Thaqalayn.bundleID)
        #expect(report.awardsWithheld.contains(live[9].uuidString.lowercased()))
        #expect(try await live.harness.count("grants WHERE user_id IN ('\(live[9])', '\(live[8])')") == 0)
      }
    }
  }

  private func grants(_ live: LiveApps, to user: UUID) async throws {
    let ada = try #require(Harness.ada)
    _ = try await live.harness.pool.query(
      "INSERT INTO user_preferences (user_id) VALUES (\(user)) ON CONFLICT DO NOTHING")
    _ = try await live.harness.desk.grant(
      to: user.uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 1, by: ada, isForced: true)
    #expect(try await live.harness.isPremiumInPreferences(user) == true)
  }

  private func writesAsServer(_ live: LiveApps, isPremium: Bool, to user: UUID) async throws {
    try await live.harness.pool.withTransaction { connection in
      _ = try await connection.query("SELECT set_config('receiptd.serves', 'on', true)")
      _ = try await connection.query(
        "UPDATE user_preferences SET is_premium = \(isPremium) WHERE user_id = \(user)")
    }
  }

  @Test func `after the first adoption an award needs a write of the app's backend`() async throws {
    try await LiveApps.with { live in
      let pool = live.harness.pool
      _ = try await live.adopt(Thaqalayn.bundleID)
      for user in [live[8], live[9]] {
        _ = try await pool.query(
          "INSERT INTO user_preferences (user_id) VALUES (\(user)) ON CONFLICT DO NOTHING")
      }
      // The app's backend.
      _ = try await pool.query("UPDATE user_preferences SET is_premium = true WHERE user_id = \(live[9])")
      try await writesAsServer(live, isPremium: true, to: live[8])
      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.awardsWithheld == [live[8].uuidString.lowercased()])
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[9])'") == 1)
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[8])'") == 0)
    }
  }

  @Test func `a backend's write that is open during the first adoption gets its award from the next one`()
    async throws
  {
    try await LiveApps.with { live in
      let pool = live.harness.pool
      _ = try await pool.query(
        "INSERT INTO user_preferences (user_id) VALUES (\(live[9])) ON CONFLICT DO NOTHING")
      try await pool.withTransaction { connection in
        _ = try await connection.query(
          "UPDATE user_preferences SET is_premium = true WHERE user_id = \(live[9])")
        _ = try await live.adopt(Thaqalayn.bundleID)
      }
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[9])'") == 0)
      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.awardsWithheld.isEmpty)
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[9])'") == 1)
    }
  }

  @Test func `a backend's write counts only for the premium that it made`() async throws {
    try await LiveApps.with { live in
      let pool = live.harness.pool
      _ = try await live.adopt(Thaqalayn.bundleID)
      for user in [live[8], live[9]] {
        _ = try await pool.query(
          "INSERT INTO user_preferences (user_id) VALUES (\(user)) ON CONFLICT DO NOTHING")
        _ = try await pool.query("UPDATE user_preferences SET is_premium = true WHERE user_id = \(user)")
        #expect(try await live.harness.count("backend_writes WHERE user_id = '\(user)'") == 1)
      }
      // The backend ends one, and receiptd the other.
      _ = try await pool.query("UPDATE user_preferences SET is_premium = false WHERE user_id = \(live[9])")
      try await writesAsServer(live, isPremium: false, to: live[8])
      #expect(try await live.harness.count("backend_writes") == 0)
    }
  }

  @Test(arguments: [
    "DELETE FROM user_preferences WHERE user_id = $user", "TRUNCATE user_preferences",
    "UPDATE user_preferences SET user_id = '00000000-0000-4000-8000-000000000001' WHERE user_id = $user",
  ])
  func `the note of a backend's write, and an open claim, end with the row`(statement: String) async throws {
    try await LiveApps.with { live in
      let (pool, user) = (live.harness.pool, live[9])
      _ = try await live.adopt(Thaqalayn.bundleID)
      _ = try await pool.query("DELETE FROM user_preferences WHERE user_id = \(live[1])")
      _ = try await pool.query("INSERT INTO user_preferences (user_id, is_premium) VALUES (\(user), true)")
      _ = try await pool.query(
        """
        INSERT INTO adoptions (bundle_id, customer, source, outcome, run_id, at)
        VALUES (\(Thaqalayn.bundleID), \(user.uuidString.lowercased()), 'user_preferences', 'failed', 1, now())
        """)
      let traces = [
        "backend_writes WHERE user_id = '\(user)'",
        "adoptions WHERE customer = '\(user.uuidString.lowercased())'",
      ]
      for trace in traces { #expect(try await live.harness.count(trace) == 1) }
      try await LiveTables.run(statement.replacing("$user", with: "'\(user)'"), on: pool)
      for trace in traces { #expect(try await live.harness.count(trace) == 0) }
    }
  }

  @Test func `an erasure for one app leaves what an app has that is not configured now`() async throws {
    try await LiveApps.with { live in
      try await grants(live, to: live[9])
      let ada = try #require(Harness.ada)
      _ = try await live.harness.desk.grant(
        to: live[9].uuidString, bundleID: SwiftClimb.bundleID, tier: "premium", days: 5, by: ada,
        isForced: true)
      let letter = try #require(Harness.makeAuthor("ada", "asked by letter"))
      try await Self.withLeft(live) { service in
        _ = try await service.support.eraseCustomer(
          live[9].uuidString, bundleID: SwiftClimb.bundleID, by: letter, isForced: true)
      }
      let open = "grants WHERE user_id = '\(live[9])' AND revoked_at IS NULL"
      #expect(try await live.harness.count("\(open) AND bundle_id = '\(Thaqalayn.bundleID)'") == 1)
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[9])'") == 1)
    }
  }

  @Test func `a claim that the first adoption could not decide gets its award from the next one`()
    async throws
  {
    try await LiveApps.with { live in
      let premium = try await live.harness.pool.query(
        "SELECT user_id FROM user_preferences WHERE is_premium ORDER BY 1")
      let user = try #require(try premium.first?.decode("user_id", as: UUID.self))
      try await live.harness.pool.withTransaction { connection in
        _ = try await connection.query(
          CustomerStatusWriter.lock([.user(user)]))
        let report = try await live.adopt(Thaqalayn.bundleID)
        #expect(report.outcomes["failed"] == 1)
      }
      #expect(try await live.harness.count("grants WHERE user_id = '\(user)'") == 0)
      _ = try await live.adopt(Thaqalayn.bundleID)
      #expect(try await live.harness.count("grants WHERE user_id = '\(user)'") == 1)
    }
  }

  @Test func `a grant of an app that is not configured cannot be revoked`() async throws {
    try await LiveApps.with { live in
      try await grants(live, to: live[9])
      let ada = try #require(Harness.ada)
      let id = try await live.harness.pool.query("SELECT id FROM grants WHERE user_id = \(live[9])")[0]
        .decode("id", as: UUID.self)
      try await Self.withLeft(live) { service in
        let kind = try await refusal { _ = try await service.support.revokeGrant(id, by: ada) }
        #expect(kind != nil)
      }
      _ = try await live.harness.desk.revokeGrant(id, by: ada)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == false)
    }
  }

  @Test func `a status that could not be written waits while no configured app writes to its table`()
    async throws
  {
    try await LiveApps.with { live in
      let ada = try #require(Harness.ada)
      let pool = live.harness.pool
      _ = try await live.adopt(Thaqalayn.bundleID)
      try await live.run("INSERT INTO user_preferences (user_id) VALUES ('\(live[9])')", as: live[9])
      try await pool.withTransaction { connection in
        _ = try await connection.query("SELECT 1 FROM user_preferences WHERE user_id = \(live[9]) FOR UPDATE")
        _ = try await live.harness.desk.grant(
          to: live[9].uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 30, by: ada,
          isForced: true)
      }
      #expect(try await live.harness.count("outbox WHERE destination = 'profiles'") == 1)
      live.harness.clock.advance(seconds: 5)
      try await Self.withLeft(live) { service in
        let due = try await service.customers.profileRetry.run()
        #expect(due == 1)
      }
      let waiting = try await pool.query("SELECT last_error FROM outbox WHERE destination = 'profiles'")
      let reasons = try waiting.map { try $0.decode("last_error", as: String.self) }
      #expect(reasons == ["user_preferences: no configured app writes to it"])
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == false)
      live.harness.clock.advance(seconds: 60)
      #expect(try await live.harness.service.customers.profileRetry.run() == 1)
      #expect(try await live.harness.isPremiumInPreferences(live[9]) == true)
      #expect(try await live.harness.count("outbox WHERE destination = 'profiles'") == 0)
    }
  }

  @Test func `the mode of a table stays when its last app leaves, and doctor says so`() async throws {
    let modes = [Thaqalayn.bundleID: "refuse"]
    try await LiveApps.with(modes) { live in
      func mode() async throws -> String {
        try await live.harness.pool.query(
          "SELECT mode FROM client_write_modes WHERE table_name = 'user_preferences'")[0].decode("mode")
      }
      #expect(try await mode() == "refuse")
      try await Self.withLeft(live, modes) { _ in
        #expect(try await mode() == "refuse")
        // Clients write nothing.
        #expect(try await live.writesIsPremium(live[9]) != true)
        let file = FileManager.default.temporaryDirectory.appending(path: "apps-\(UUID()).json")
        try Data(Self.left(modes).utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let environment = live.harness.environment.merging(["RECEIPTD_CONFIG": file.path]) { $1 }
        var lines: [String] = []
        _ = await Doctor(environment: environment, clock: live.harness.clock.service).check {
          if $0.subject == "client writes to user_preferences" { lines.append($0.line) }
        }
        #expect(lines.count == 1)
        #expect(lines.first?.contains("no configured app writes to it, and its mode stays refuse") == true)
      }
    }
  }

  @Test func `claims of devices from before the app had users stop no adoption`() async throws {
    try await LiveApps.with { live in
      _ = try await live.harness.pool.query(
        """
        INSERT INTO adoptions (bundle_id, customer, original_transaction_id, source, outcome, at)
        VALUES (\(SwiftClimb.bundleID), 'phone', '', 'subscriptions', 'expired', now())
        """)
      let report = try await live.adopt()
      #expect(report.bundleID == SwiftClimb.bundleID)
    }
  }
}

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

  @Test func `a customer whose row in a table of no configured app is premium cannot be erased`() async throws
  {
    try await LiveApps.with { live in
      let letter = try #require(Harness.makeAuthor("ada", "asked by letter"))
      _ = try await live.adopt(Thaqalayn.bundleID)
      // By a client's word, and by a grant.
      #expect(try await live.writesIsPremium(live[8]) == true)
      let ada = try #require(Harness.ada)
      let given = try await live.harness.desk.grant(
        to: live[7].uuidString, bundleID: Thaqalayn.bundleID, tier: "premium", days: 1, by: ada,
        isForced: true)
      #expect(given.customer == live[7].uuidString.lowercased())
      try await Self.withLeft(live) { service in
        for (number, app) in [(7, Thaqalayn.bundleID), (8, SwiftClimb.bundleID)] {
          for isDryRun in [true, false] {
            let kind = try await refusal {
              _ = try await service.support.eraseCustomer(
                live[number].uuidString, bundleID: app, by: letter, isForced: true,
                isDryRun: isDryRun)
            }
            #expect(kind == .invalid)
          }
        }
        // Its owner has ended it by hand.
        _ = try await live.harness.pool.query(
          "UPDATE user_preferences SET is_premium = false, bookmark_limit = 2 WHERE user_id = \(live[7])")
        _ = try await service.support.eraseCustomer(
          live[7].uuidString, bundleID: Thaqalayn.bundleID, by: letter, isForced: true)
      }
      try await live.harness.service.configuredApps.write()
      let report = try await live.adopt(Thaqalayn.bundleID)
      #expect(report.awardsWithheld == [live[8].uuidString.lowercased()])
      #expect(try await live.harness.count("grants WHERE user_id = '\(live[8])'") == 0)
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

import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Adoption
@testable import ReceiptService

/// The modes of `clientWrites`, what doctor says of them, and the columns that a status changes.
@Suite struct ClientWriteModeTests {
  private static let receipt = "2000000000001005"

  @Test func `without a setting, a table that existed is observed if its claims can be verified`()
    async throws
  {
    func modes(_ harness: Harness) async throws -> [String: String?] {
      let stored = try await ClientWriteModes.read(harness.service.pool)
      return Dictionary(uniqueKeysWithValues: stored.map { ($0.table, $0.mode?.rawValue) })
    }
    try await LiveApps.with { live in
      #expect(try await modes(live.harness) == ["profiles": "observe", "user_preferences": "accept"])
      // A reload with another mode.
      let other = try await live.harness.service(
        configuration: LiveApps.configuration([SwiftClimb.bundleID: "refuse"]))
      try await other.configuredApps.write()
      await other.close()
      #expect(try await modes(live.harness) == ["profiles": "refuse", "user_preferences": "accept"])
    }
    try await LiveApps.with(environment: [
      "APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": "",
    ]) {
      live in
      let found = try await modes(live.harness)
      #expect(found == ["profiles": "accept", "user_preferences": "accept"])
    }
    try await withHarness { harness in
      let found = try await modes(harness)
      #expect(found == ["profiles": "refuse", "user_preferences": "refuse"])
    }
  }

  @Test func `doctor and the metric count client writes, and doctor says when refuse is safe`() async throws {
    try await LiveApps.with { live in
      func lines() async -> [String] {
        var lines: [String] = []
        _ = await Doctor(environment: live.harness.environment, clock: live.harness.clock.service).check {
          if $0.subject.hasPrefix("client writes") { lines.append($0.line) }
        }
        return lines
      }
      try await live.writesPremium(live[9], Self.receipt)
      try await live.writesPremium(live[9], Self.receipt)
      try await live.writesPremium(live[8], Self.receipt)
      live.harness.clock.advance(seconds: 5)
      let early = await lines()
      #expect(early.count == 2)
      #expect(early.first?.hasPrefix("ok    client writes to profiles: observe (by default") == true)
      #expect(early.first?.contains("3 client writes of 2 users in the last 30 days") == true)
      #expect(early.first?.contains("refuse is safe from ") == true)
      #expect(early.last?.contains("client writes to user_preferences: accept") == true)
      try await live.harness.service.databaseGauges.readClientWrites()
      let scraped = try await live.harness.send(.get, "/metrics", to: live.harness.adminAddress)
      let text = String(decoding: scraped.body, as: UTF8.self)
      #expect(text.contains(#"receiptd_client_writes_recently{mode="observe",table="profiles"} 3"#))

      try await live.writesPremium(live[7], live.buy().originalTransactionID)
      try await live.verifyClaims()
      #expect(
        await lines().first?.contains(
          "4 client writes of 3 users in the last 30 days, 1 of them with a verified purchase") == true)

      live.harness.clock.advance(days: 31)
      let late = await lines()
      #expect(late.first?.contains("0 client writes of 0 users in the last 30 days") == true)
      #expect(late.first?.contains("refuse is safe now") == true)
    }
  }

  @Test func `updated_at changes with the premium status, and only with it`() async throws {
    try await LiveApps.with { live in
      let user = live[9]
      func updatedAt() async throws -> Date {
        try await live.harness.pool.query("SELECT updated_at FROM profiles WHERE id = \(user)")[0].decode(
          "updated_at")
      }
      let old = Date(timeIntervalSince1970: 1_700_000_000)
      _ = try await live.harness.pool.query("UPDATE profiles SET updated_at = \(old)")
      let bought = try live.buy(token: user)
      try await live.harness.arrives(bought)
      #expect(try await updatedAt() > old)
      _ = try await live.harness.pool.query("UPDATE profiles SET updated_at = \(old)")
      // The same facts again write nothing.
      #expect(try await live.harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await updatedAt() == old)
      try await live.harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await updatedAt() > old)

      // A column of another type, and one without a time zone.
      _ = try await live.harness.pool.query(
        "ALTER TABLE user_preferences ADD COLUMN updated_at text DEFAULT 'x'")
      let tafsir = try live.buy(Thaqalayn.tafsir, bundleID: Thaqalayn.bundleID, token: live[8])
      try await live.harness.arrives(tafsir)
      #expect(try await live.harness.isPremiumInPreferences(live[8]) == true)
      _ = try await live.harness.pool.query(
        """
        ALTER TABLE user_preferences ALTER updated_at DROP DEFAULT, ALTER updated_at TYPE timestamp USING '2020-01-01'
        """)
      try await live.harness.happens(.refundLatest, to: tafsir.originalTransactionID)
      let isNow = try await live.harness.pool.query(
        """
        SELECT abs(extract(epoch FROM updated_at - (now() AT TIME ZONE 'UTC'))) < 60 AS is_now
        FROM user_preferences WHERE user_id = \(live[8])
        """)[0]
      #expect(try isNow.decode("is_now", as: Bool.self))
    }
  }

  @Test func `the limits of bookmarks are configured`() async throws {
    let configuration = TestApps.json.replacing(
      #""bundleID": "com.example.climbing","#,
      with: #""bundleID": "com.example.climbing", "userPreferences": {"free": 5, "premium": 50},"#)
    try await withHarness(configuration: configuration) { harness in
      func limit(_ user: UUID) async throws -> Int {
        try await harness.pool.query("SELECT bookmark_limit FROM user_preferences WHERE user_id = \(user)")[0]
          .decode("bookmark_limit")
      }
      let (user, bought) = try await harness.customer()
      #expect(try await limit(user) == 50)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await limit(user) == 5)
      let free = try await harness.pool.query("SELECT free_bookmark_limit FROM client_write_modes LIMIT 1")[0]
      #expect(try free.decode("free_bookmark_limit", as: Int.self) == 5)
    }
    #expect(throws: ConfigurationProblem.self) {
      try AppCatalog(
        json: Data(configuration.replacing(#""free": 5"#, with: #""free": -1"#).utf8), named: "apps.json")
    }
  }
}

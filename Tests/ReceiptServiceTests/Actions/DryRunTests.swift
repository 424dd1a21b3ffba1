import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import Customers
@testable import ReceiptService
@testable import Support

@Suite struct DryRunTests {
  /// What an action could change.
  private static let tables = [
    "grants", "support_actions", "free_access", "device_secrets", "trials", "profiles", "outbox",
    "people_tokens",
    "entitlement_keys",
  ]

  private func contents(_ harness: Harness) async throws -> [String] {
    var contents: [String] = []
    for table in Self.tables {
      let rows = try await harness.pool.query(
        "SELECT coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '') AS rows FROM \(unescaped: table) t"
      )
      contents.append(try table + ": " + rows[0].decode("rows"))
    }
    return contents
  }

  @Test func `a dry run of each action answers as the action does, and changes no row`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      let device = "phone"
      let desk = harness.desk
      let grant = try await desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), \(device), \(now), \(now + 86_400))
        """)
      _ = try await harness.add("Bob", .agent)
      let before = try await contents(harness)

      let second = try await desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 30, by: ada, isDryRun: true)
      #expect(second.isDryRun)
      let end = try #require(second.endsAt)
      #expect(end == harness.clock.now + 30 * 86_400)
      let revoked = try await desk.revokeGrant(
        #require(UUID(uuidString: grant.grant)), by: ada, isDryRun: true)
      #expect(revoked.isChanged && revoked.revokedAt == harness.clock.now)
      let extended = try await desk.extendTrial(
        of: device, bundleID: TestApps.family, days: 5, by: ada, isDryRun: true)
      #expect(extended.isDryRun && extended.extendedDays == 5)
      #expect(
        try await desk.setFreeAccess(true, bundleID: TestApps.climbing, by: ada, isDryRun: true).isOn)
      _ = try await desk.resetDeviceSecret(of: device, bundleID: TestApps.family, by: ada, isDryRun: true)
      #expect(
        try await harness.service.people.remove("Bob", by: ada, isDryRun: true).isChanged)
      _ = try await harness.service.rotateEntitlementKey(by: ada, isDryRun: true)
      #expect(try await contents(harness) == before)
      // The grant is still there to be revoked.
      #expect(
        try await desk.revokeGrant(#require(UUID(uuidString: grant.grant)), by: ada).isChanged)
    }
  }

  @Test func `an action without a preview refuses a dry run, and a role that is too low is refused before`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let reads = try await refusal {
        _ = try await harness.service.perform(RefreshRequest(id: "1"), by: ada, isDryRun: true)
      }
      #expect(reads == .invalid)
      let token = try await harness.add("Bob", .agent)
      let answer = try await harness.support(
        "free-access", ["state": "on", "bundleID": TestApps.climbing, "dryRun": true], token: token)
      #expect(answer.status == 403)
      let known = try #require(PersonToken(token))
      let person = try #require(try await harness.service.people.signIn(known))
      let bob = try SupportAuthor(by: .person(person), reason: "to try")
      let direct = try await refusal {
        _ = try await harness.service.perform(
          FreeAccessRequest(state: .on, bundleID: TestApps.climbing), by: bob, isDryRun: true)
      }
      #expect(direct == .forbidden)
    }
  }

  @Test func `the support API takes dryRun with each action that has a preview`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("Grace", .lead)
      let user = UUID().uuidString.lowercased()
      let answer = try await harness.support(
        "grant",
        [
          "customer": user, "bundleID": TestApps.climbing, "tier": "premium", "days": 7, "force": true,
          "dryRun": true,
        ], token: token)
      #expect(answer.status == 200)
      #expect(answer["isDryRun"] as? Bool == true)
      #expect(try await harness.count("grants") == 0)
      let refused = try await harness.support(
        "people/add", ["name": "x", "role": "agent", "dryRun": true], token: token)
      #expect(refused.status == 400)
      #expect(try await harness.count("people WHERE name = 'x'") == 0)
    }
  }
}

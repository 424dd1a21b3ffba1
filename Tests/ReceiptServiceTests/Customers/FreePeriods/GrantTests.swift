import Actions
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct GrantTests {
  @Test func `a grant applies at once until its end, in the response and on the profile`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let ada = try #require(Harness.ada)
      let grant = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      let end = harness.clock.now + 7 * 86_400
      #expect(try await harness.isPremium(user))
      #expect(try await harness.profileRow(of: user)?.expiresAt == end)
      #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
      #expect(try await harness.isPremiumInPreferences(user) == true)
      #expect(
        try await harness.actions() == [
          Harness.Action(
            action: "grant", from: nil, to: user.uuidString.lowercased(), by: "ada", reason: "ticket 812")
        ])
      #expect(grant.endsAt == end)

      harness.clock.set(end - 1)
      try await harness.service.sweepEverything()
      #expect(try await harness.isPremiumInPreferences(user) == true)
      harness.clock.set(end)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == false)
      #expect(try await harness.service.sweep.grants.run() == 0)
    }
  }

  /// The system's clock has more digits than a `timestamptz`.
  @Test(arguments: Array(stride(from: 0, to: 1, by: 0.1)))
  func `a grant is on the profile from its creation to its revocation, at any instant`(
    microseconds: Double
  ) async throws {
    try await withHarness { harness in
      harness.clock.advance(seconds: microseconds / 1_000_000)
      let user = UUID()
      let ada = try #require(Harness.ada)
      let grant = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
      #expect(try await harness.isPremiumInPreferences(user) == true)
      harness.clock.advance(seconds: 60)
      _ = try await harness.desk.revokeGrant(#require(UUID(uuidString: grant.grant)), by: ada)
      #expect(try await harness.profileRow(of: user)?.product == nil)
      #expect(try await harness.isPremiumInPreferences(user) == false)
    }
  }

  @Test func `a late notification from before a grant does not remove the grant from the profile`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let ada = try #require(Harness.ada)
      let intake = harness.service.notifications
      let entry = try intake.entry(for: harness.buy(token: user).notification.signedPayload)
      harness.clock.advance(seconds: 1)
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 365, by: ada, isForced: true)
      #expect(try await intake.ledger.record(entry).isNews)
      #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
    }
  }

  @Test func `a revoked grant ends at once, and a second revocation changes nothing`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let ada = try #require(Harness.ada)
      let grant = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      let id = try #require(UUID(uuidString: grant.grant))
      let changes = try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<8 { group.addTask { try await harness.desk.revokeGrant(id, by: ada).isChanged } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(changes == 1)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.isPremiumInPreferences(user) == false)
      #expect(try await harness.actions().map(\.action) == ["grant", "revoke-grant"])
      #expect(try await harness.service.sweep.grants.run() == 0)
    }
  }

  @Test func `revoking an ended grant of an erased customer is refused, and writes no row`()
    async throws
  {
    try await withWebhook { harness, _ in
      let author = try #require(Harness.ada)
      let user = UUID()
      let grant = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 1, by: author, isForced: true
      )
      harness.clock.advance(days: 2)
      _ = try await harness.desk.eraseCustomer(
        user.uuidString, bundleID: TestApps.climbing, by: author, isForced: true)
      let before = try await (harness.count("outbox"), harness.actions().count)
      let id = try #require(UUID(uuidString: grant.grant))
      let refusal = await #expect(throws: SupportRefusal.self) {
        _ = try await RevokeGrantRequest(grant: id).perform(at: harness.service.support, by: author)
      }
      #expect(refusal?.kind == .alreadyDone)
      #expect(try await (harness.count("outbox"), harness.actions().count) == before)
    }
  }

  @Test func `a grant to a device is in its responses`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.grant(
        to: "tablet-1", bundleID: TestApps.family, tier: "family", days: 1, by: ada, isForced: true)
      let customerRecords = try await harness.pool.customerRecords(devices: ["tablet-1"])
      #expect(customerRecords[.device("tablet-1")].grants[TestApps.family]?.map(\.tier) == ["family"])
    }
  }

  @Test func `a customer whose lock is held does not stop the sweep of other customers`() async throws {
    try await withHarness { harness in
      let users = (0..<3).map { _ in UUID() }
      let ada = try #require(Harness.ada)
      for user in users {
        _ = try await harness.desk.grant(
          to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      }
      harness.clock.advance(days: 8)
      let swept = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.user(users[0])]))
        return try await harness.service.sweep.grants.run()
      }
      #expect(swept == 2)
      #expect(try await harness.isPremiumInPreferences(users[0]) == true)
      for user in users.dropFirst() { #expect(try await harness.isPremiumInPreferences(user) == false) }
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(users[0]) == false)
    }
  }

  @Test func `two concurrent sweeps process 40 grants that ended during an outage, each once`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let users = (0..<40).map { _ in UUID() }
      for user in users {
        _ = try await harness.desk.grant(
          to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 1, by: ada, isForced: true)
      }
      // One grant that began and ended meanwhile, and one in the future.
      let missed = UUID()
      let later = UUID()
      let now = harness.clock.now
      for (user, start, end) in [(missed, 3_600.0, 7_200.0), (later, 10 * 86_400, 11 * 86_400)] {
        _ = try await harness.pool.query(
          """
          INSERT INTO grants (bundle_id, user_id, tier, starts_at, ends_at, reason, granted_by)
          VALUES (\(TestApps.climbing), \(user), 'premium', \(now + start), \(now + end), 'by hand', 'sql')
          """)
      }
      harness.clock.advance(days: 2)
      async let first = harness.service.sweep.grants.run()
      async let second = harness.service.sweep.grants.run()
      let followed = try await (first, second)
      #expect(followed.0 + followed.1 == 41)
      for user in users { #expect(try await harness.isPremiumInPreferences(user) == false) }

      harness.clock.set(now + 10 * 86_400)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(later) == true)
      harness.clock.set(now + 11 * 86_400)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(later) == false)
    }
  }

  @Test func `a grant for an unknown app, tier or customer is refused, and nothing is written`() async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID().uuidString
      let desk = harness.desk
      let cases: [(String, String, String, Int, SupportRefusal.Kind)] = [
        (user, "com.example.none", "premium", 1, .notFound), (user, TestApps.climbing, "gold", 1, .notFound),
        ("ada", TestApps.climbing, "premium", 1, .invalid), (user, TestApps.climbing, "premium", 0, .invalid),
        ("", TestApps.family, "family", 1, .invalid), ("a\nb", TestApps.family, "family", 1, .invalid),
      ]
      for (customer, bundleID, tier, days, expected) in cases {
        let kind = try await refusal {
          _ = try await desk.grant(
            to: customer, bundleID: bundleID, tier: tier, days: days, by: ada, isForced: true)
        }
        #expect(kind == expected, "\(customer) \(bundleID) \(tier) \(days)")
      }
      #expect(try await refusal { _ = try await desk.revokeGrant(UUID(), by: ada) } == .notFound)
      #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .operatorNamed("ada"), reason: " ") }
      #expect(throws: SupportRefusal.self) {
        try SupportAuthor(by: .operatorNamed("a\u{1B}[2J"), reason: "x")
      }
      #expect(try await harness.count("grants") == 0)
      #expect(try await harness.count("support_actions") == 0)
    }
  }

  @Test func `a customer with unreadable rows does not delay the ended grants of other customers`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (broken, _) = try await harness.customer()
      let users = [broken] + (0..<5).map { _ in UUID() }
      for user in users {
        _ = try await harness.desk.grant(
          to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 1, by: ada, isForced: true)
      }
      _ = try await harness.pool.query("UPDATE subscriptions SET phase_statuses = '{nonsense}'")
      harness.clock.advance(days: 2)
      #expect(try await harness.service.sweep.grants.run() == 5)
      for user in users.dropFirst() { #expect(try await harness.isPremiumInPreferences(user) == false) }
    }
  }

  @Test func `a grant that the profile table refuses is written later`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let ada = try #require(Harness.ada)
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
      _ = try await harness.pool.query(
        "ALTER TABLE profiles ADD CONSTRAINT stubborn CHECK (premium_product_id IS NULL)")
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.profileRow(of: user)?.product == nil)
      _ = try await harness.pool.query("ALTER TABLE profiles DROP CONSTRAINT stubborn")
      harness.clock.advance(seconds: 10)
      try await harness.service.customers.profileRetry.run()
      #expect(try await harness.profileRow(of: user)?.product == "grant:premium")
    }
  }

  @Test
  func `a refunded purchase, an ended grant and a revoked one make a former customer, and a new one is none`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      func had(_ user: UUID) async throws -> Bool? {
        let answer = try await harness.profile(of: user, token: harness.token(for: user))
        #expect(answer.bool("entitlements.isAccessGranted") == false)
        return answer.bool("entitlements.everHadAccess")
      }
      func grant(_ user: UUID) async throws -> String {
        try await harness.desk.grant(
          to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true
        ).grant
      }
      let (buyer, bought) = try await harness.customer()
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let (ended, revoked) = (UUID(), UUID())
      _ = try await grant(ended)
      let second = try await grant(revoked)
      _ = try await harness.desk.revokeGrant(#require(UUID(uuidString: second)), by: ada)
      harness.clock.advance(days: 8)
      for former in [buyer, ended, revoked] { #expect(try await had(former) == true) }
      #expect(try await had(UUID()) == false)
    }
  }
}

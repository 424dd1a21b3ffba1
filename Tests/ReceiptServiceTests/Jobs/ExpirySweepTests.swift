import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import Proofs
@testable import ReceiptService
@testable import Support

@Suite struct ExpirySweepTests {
  @Test func `an expiry without a notification is in the response at once and in the rows after a sweep`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user) { $0.exp = ($0.exp ?? 0) + 400 * 86_400 }
      let bought = try harness.buy(token: user)
      _ = try await harness.notify(bought.notification.signedPayload)
      #expect(try await harness.service.sweep.run() == 0)

      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end - 0.001)
      #expect(try await harness.profile(of: user, token: token).bool("isPremium") == true)
      harness.clock.set(end)
      let answer = try await harness.profile(of: user, token: token)
      #expect(answer.bool("isPremium") == false)
      #expect(answer.date("premiumExpiresAt") == end)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")

      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "expired")
      #expect(try await harness.profileRow(of: user)?.expiresAt == end)
      let preferences = try await harness.pool.query(
        "SELECT is_premium, bookmark_limit FROM user_preferences")[0]
      #expect(try preferences.decode("is_premium", as: Bool.self) == false)
      #expect(try preferences.decode("bookmark_limit", as: Int.self) == 2)
      #expect(try await harness.service.sweep.run() == 0)
    }
  }

  @Test func `two concurrent sweeps expire 300 purchases that end at the same time`() async throws {
    try await withHarness { harness in
      var end = harness.clock.now
      try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<300 {
          let bought = try harness.buy()
          end = try #require(bought.transaction.expiresDate)
          group.addTask { try await harness.notify(bought.notification.signedPayload).status }
        }
        for try await status in group { #expect(status == 200) }
      }
      harness.clock.set(end)
      async let first = harness.service.sweep.run()
      async let second = harness.service.sweep.run()
      _ = try await (first, second)
      let left = try await harness.pool.query("SELECT 1 FROM subscriptions WHERE status <> 'expired'").count
      #expect(left == 0)
    }
  }

  @Test func `the sweep updates due purchases by its server's current configuration`() async throws {
    try await withHarness { harness in
      let (user, tester) = (UUID(), UUID())
      let bought = try harness.buy(token: user)
      let tried = try harness.buy(TestApps.annual, token: tester, in: .sandbox)
      for purchase in [bought, tried] { _ = try await harness.notify(purchase.notification.signedPayload) }
      #expect(try await harness.row(of: bought.originalTransactionID).tier == "premium")
      #expect(try await harness.profileRow(of: tester)?.product == nil)

      // A product gets another tier, and a user becomes a tester.
      let other = try await harness.service(
        configuration: TestApps.configuration(sandboxGrants: #"["\#(tester)"]"#)
          .replacing(#"monthly": { "tier": "premium""#, with: #"monthly": { "tier": "gold""#)
          .replacing(#""tiers": { "premium":"#, with: #""tiers": { "gold": { "rank": 2 }, "premium":"#))
      #expect(try await other.sweep.run() == 0)
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET next_change_at = \(harness.clock.now) WHERE bundle_id = \(TestApps.climbing)"
      )
      #expect(try await other.sweep.run() == 2)
      #expect(try await harness.row(of: bought.originalTransactionID).tier == "gold")
      #expect(try await harness.profileRow(of: tester)?.product == TestApps.annual)
      #expect(try await other.sweep.run() == 0)
      await other.close()
    }
  }

  @Test(arguments: [false, true])
  func `a changed configuration reaches every device that shares a purchase`(byProof: Bool) async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let devices = ["phone", "tablet", "watch"]
      for device in devices { _ = try await harness.device(device, shows: bought) }
      let other = try await harness.service(
        configuration: ScreenTime.configuration().replacing(
          #"family.monthly": { "tier": "family""#, with: #"family.monthly": { "tier": "individual""#))
      _ = try await harness.pool.query(
        "UPDATE outbox SET next_attempt_at = 'infinity', done_at = \(harness.clock.now)")
      _ = try await harness.pool.query("UPDATE subscriptions SET next_change_at = \(harness.clock.now)")
      if byProof {
        let app = try #require(other.support.catalog[ScreenTime.bundleID])
        let record = try #require(other.support.signed.transaction(bought.signedTransaction, in: app))
        let entry = LedgerEntry(
          app: app, originalTransactionID: bought.originalTransactionID, transactions: [record],
          because: .proof(Claim(by: .device("tablet"))), instant: harness.clock.now)
        _ = try await other.proofs.oldProofs.ledger.record(entry)
      } else {
        #expect(try await other.sweep.run() == 1)
      }
      await other.close()
      #expect(try await harness.row(of: bought.originalTransactionID).tier == "individual")
      let told = try await harness.pool.query(
        "SELECT DISTINCT key FROM outbox WHERE done_at IS NULL ORDER BY 1"
      )
      .map { try $0.decode("key", as: String.self) }
      #expect(told == devices)
    }
  }

  @Test func `a row that a server with its clock ahead wrote too early is corrected by another server`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let now = harness.clock.now
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end + 60)
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: id).status == "expired")
      #expect(try await harness.isPremiumInPreferences(user) == false)

      harness.clock.set(now + 60)
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: id).status == "active")
      #expect(try await harness.isPremiumInPreferences(user) == true)
      #expect(try await harness.service.sweep.run() == 0)

      harness.clock.set(end)
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: id).status == "expired")
      #expect(try await harness.service.sweep.run() == 0)
    }
  }

  @Test func `the row of a notification that a server with its clock ahead processed is corrected`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let now = harness.clock.now
      let end = try #require(bought.transaction.expiresDate)
      let news = try harness.store.perform(.setAutoRenew(false), on: bought.originalTransactionID)
      harness.clock.set(end + 86_400)
      try await harness.arrives(news)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "expired")
      harness.clock.set(now + 60)
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      #expect(try await harness.isPremiumInPreferences(user) == true)
    }
  }

  @Test func `a grant that a server with its clock ahead began or ended too early is corrected`() async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let ada = try #require(Harness.ada)
      let now = harness.clock.now
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      harness.clock.advance(days: 8)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == false)
      harness.clock.set(now + 60)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == true)
      #expect(try await harness.service.sweep.grants.run() == 0)

      // The second grant begins in ten days, after the end of the first.
      _ = try await harness.pool.query(
        """
        UPDATE grants SET starts_at = \(now + 10 * 86_400), ends_at = \(now + 20 * 86_400), followed_until = NULL
        """)
      harness.clock.advance(days: 11)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == true)
      harness.clock.set(now + 120)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == false)
      harness.clock.set(now + 10 * 86_400)
      #expect(try await harness.service.sweep.grants.run() == 1)
      #expect(try await harness.isPremiumInPreferences(user) == true)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// The support views agree with the responses to clients. The views read the database's clock, so the service's clock
/// has the same time here.
@Suite struct SupportViewTests {
  private func seen(
    _ harness: Harness, _ id: String
  ) async throws -> (hasAccess: Bool, customerHasAccess: Bool?, until: Date?) {
    let row = try await harness.pool.query(
      "SELECT has_access, access_ends_at FROM support_subscriptions WHERE original_transaction_id = \(id)")[0]
    let customer = try await harness.pool.query(
      """
      SELECT c.has_access FROM support_customers c JOIN subscriptions s
        ON c.bundle_id = s.bundle_id AND (c.user_id = s.user_id OR c.device_id = s.device_id)
      WHERE original_transaction_id = \(id)
      """)
    return (
      try row.decode("has_access"), try customer.first.map { try $0.decode("has_access", as: Bool.self) },
      try row.decode("access_ends_at")
    )
  }

  @Test func `the support views and the response agree about access`() async throws {
    try await withHarness { harness in
      let now = harness.clock.now
      let cases: [(name: String, expected: Bool, change: (inout TransactionInfo) -> Void)] = [
        ("running", true, { _ in }), ("sandbox", false, { $0.environment = .sandbox }),
        ("unknown product", false, { $0.productId = "unheard" }),
        ("over", false, { $0.expiresDate = now - 60 }), ("refunded", false, { $0.revocationDate = now - 60 }),
      ]
      for (name, expected, change) in cases {
        let info = try harness.transaction(change)
        let answer = try await harness.validate(
          ["signedTransaction": harness.sign(info)], token: harness.token(for: UUID()))
        #expect(answer.bool("entitlements.isAccessGranted") ?? false == expected, "\(name)")
        let seen = try await seen(harness, info.originalTransactionId)
        #expect(seen.hasAccess == expected, "\(name)")
        #expect(seen.customerHasAccess == expected, "\(name)")
      }
    }
  }

  @Test func `the app's own grace is access until its end, in the response and the support views`()
    async throws
  {
    try await withHarness { harness in
      let end = harness.clock.now - 86_400
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      var info = bought.transaction
      info.purchaseDate = end - 30 * 86_400
      info.expiresDate = end
      let answer = try await harness.validate([
        "signedTransaction": harness.sign(info), "deviceID": "phone-7",
      ])
      #expect(answer.string("subscription.status") == "grace")
      let seen = try await seen(harness, info.originalTransactionId)
      #expect(seen.hasAccess)
      #expect(seen.customerHasAccess == true)
      #expect(seen.until == end + 7 * 86_400)
    }
  }

  @Test func `access that ended with Apple's billing grace ended at that date in the support views`()
    async throws
  {
    try await withHarness { harness in
      let now = harness.clock.now
      harness.clock.set(now - 100 * 86_400)
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let paidUntil = try #require(bought.transaction.expiresDate)
      harness.clock.set(paidUntil)
      try await harness.happens(.failToRenew(grace: true), to: id)
      let graceEnd = try #require(harness.store.truth(of: id)?.gracePeriodExpiresDate)
      #expect(try await seen(harness, id).until == graceEnd)

      harness.clock.set(graceEnd + 60)
      try await harness.happens(.endGrace, to: id)
      harness.clock.set(now)
      let over = try await seen(harness, id)
      #expect(!over.hasAccess)
      #expect(over.until == graceEnd)
      let ends = try await harness.pool.query(
        "SELECT at FROM support_timeline WHERE event = 'access ended' AND user_id = \(user)")
      #expect(try ends.map { try $0.decode("at", as: Date.self) } == [graceEnd])

      // A purchase after the end: the earlier loss of access keeps its date.
      harness.clock.set(now - 86_400)
      try await harness.arrives(try harness.buy(token: user))
      let after = try await harness.pool.query(
        "SELECT at FROM support_timeline WHERE event = 'access ended' AND user_id = \(user)")
      #expect(try after.map { try $0.decode("at", as: Date.self) } == [graceEnd])
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// `REFUND`, `REFUND_REVERSED`, `REFUND_DECLINED`, `CONSUMPTION_REQUEST` and `REVOKE`: refunds and their reversal.
@Suite struct RefundTests {
  @Test(arguments: [100, 40])
  func `REFUND, in full or prorated, ends the refunded access`(percentage: Int) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 9)
      let refunded = try await harness.happens(
        .refund(transactionID: nil, percentage: percentage, reason: .refundedDueToIssue),
        to: bought.originalTransactionID)
      #expect(
        refunded.transaction.revocationType == (percentage == 100 ? .refundFull : .refundProrated))
      #expect(
        try await harness.access(of: user, by: bought) == .cancelled(until: bought.transaction.expiresDate))
      #expect(
        try await harness.row(of: bought.originalTransactionID).revoked
          == refunded.transaction.revocationDate)
    }
  }

  @Test func `REFUND of a lifetime purchase ends its access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.lifetime)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "REFUND applied")
      #expect(
        try await harness.access(of: user, by: bought) == .cancelled(TestApps.lifetime, until: nil))
    }
  }

  @Test func `REFUND_REVERSED restores the refunded access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.happens(.reverseRefund(transactionID: nil), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "REFUND_REVERSED applied")
      // The store turned renewal off with the refund; the customer has to turn it on again.
      #expect(
        try await harness.access(of: user, by: bought)
          == .active(until: bought.transaction.expiresDate, renews: false))
    }
  }

  @Test func `REFUND_DECLINED changes no access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      try await harness.happens(.declineRefund(transactionID: nil), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "REFUND_DECLINED applied")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }

  @Test func `CONSUMPTION_REQUEST changes no access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      try await harness.happens(
        .requestConsumption(transactionID: nil, reason: .unsatisfiedWithPurchase),
        to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "CONSUMPTION_REQUEST applied")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }

  @Test func `REVOKE ends the family member's access, also after a refund to the purchaser`()
    async throws
  {
    try await withHarness { harness in
      let (purchaser, bought) = try await harness.customer()
      let shared = try await harness.happens(.share(accountID: "child"), to: bought.originalTransactionID)
      #expect(shared.transaction.inAppOwnershipType == .familyShared)
      // Apple gives a family member no token; the member's device proves the purchase.
      let member = UUID()
      let token = try await harness.token(for: member)
      let synced = try await harness.sync([shared.signedTransaction], user: member, token: token)
      #expect(synced.bool("isPremium") == true)

      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(
        try await harness.access(of: member, by: shared) == .cancelled(until: shared.transaction.expiresDate))
      #expect(
        try await harness.access(of: purchaser, by: bought)
          == .cancelled(until: bought.transaction.expiresDate))
      let kept = try await harness.pool.query("SELECT 1 FROM notifications WHERE type = 'REVOKE'")
      #expect(kept.count == 1)
    }
  }
}

import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing
import Text

@testable import Ledger
@testable import Proofs
@testable import ReceiptService
@testable import Support

/// Old proofs that give access only after another fact, and transactions that an unknown one replaced.
@Suite struct LaterOldProofTests {
  @Test func `an old proof is asked about when a later fact makes it the current one`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.annual)
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
      harness.clock.advance(days: 60)
      // A month that the customer bought after the year, and which the year replaced since.
      var month = bought.transaction
      month.transactionId = "9\(bought.transactionID)"
      month.productId = TestApps.monthly
      month.purchaseDate += 86_400
      month.expiresDate = month.purchaseDate + 31 * 86_400
      month.signedDate = month.purchaseDate
      func isGranted(_ jws: String) async throws -> Bool? {
        try await harness.validate(["signedTransaction": jws]).bool("entitlements.isAccessGranted")
      }
      #expect(try await isGranted(harness.sign(month)) == false)
      #expect(try await isGranted(bought.signedTransaction) == false)
      #expect(try await OldProof.calls(harness) == 0)
      month.isUpgraded = true
      month.signedDate = harness.clock.now
      #expect(try await isGranted(harness.sign(month)) == false)
      #expect(try await OldProof.calls(harness) == 1)
      #expect(
        try await OldProof.mark(bought.originalTransactionID, harness)
          == OldProof.Mark(signedAt: bought.transaction.signedDate, isDue: false, isAsked: true))
    }
  }

  @Test(arguments: [false, true])
  func `a transaction that another one replaced is asked about at any age, until its successor is known`(
    isKnownBefore: Bool
  ) async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      if isKnownBefore { _ = try await harness.validate(["signedTransaction": bought.signedTransaction]) }
      // The history does not reach back to the purchase.
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 31)
      _ = try await harness.pool.query(
        """
        INSERT INTO reconcile_positions (bundle_id, environment, history_read_until, history_begins_at, claimed_at)
        VALUES (\(TestApps.climbing), 'Production', \(harness.clock.now), \(harness.clock.now - 40 * 86_400), now())
        """)
      var replaced = bought.transaction
      replaced.isUpgraded = true
      replaced.signedDate = harness.clock.now
      let calls = try await OldProof.calls(harness)
      _ = try await harness.validate(["signedTransaction": harness.sign(replaced)])
      #expect(try await OldProof.calls(harness) == calls + 1)
      #expect(try await OldProof.mark(id, harness).isAsked)
      // Nothing is asked again for the same proof.
      _ = try await harness.validate(["signedTransaction": harness.sign(replaced)])
      #expect(try await OldProof.calls(harness) == calls + 1)
    }
  }

  @Test func `a notification about a transaction that an unknown one replaced is asked about`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      harness.clock.advance(days: 31)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 31)
      var replaced = bought.transaction
      replaced.isUpgraded = true
      replaced.signedDate = harness.clock.now
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try harness.sign(replaced)
      var payload = NotificationPayload(
        notificationType: .refundDeclined, notificationUUID: UUID().uuidString.lowercased(),
        signedDate: harness.clock.now)
      payload.data = data
      let signed = try harness.store.identity.authority.signer.sign(payload)
      #expect(try await harness.notify(signed).status == 200)
      #expect(try await OldProof.mark(id, harness).isDue)
      try await harness.service.proofs.oldProofs.run()
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test(arguments: [false, true])
  func `a restored copy is asked about at any age, because its refund is signed on another transaction`(
    isNotified: Bool
  ) async throws {
    try await withHarness { harness in
      let bought = try OldProof.refunded(TestApps.lifetime, harness)
      // The history begins between the refund and the copy's signature.
      _ = try await harness.pool.query(
        """
        INSERT INTO reconcile_positions (bundle_id, environment, history_read_until, history_begins_at, claimed_at)
        VALUES (\(TestApps.climbing), 'Production', \(harness.clock.now), \(harness.clock.now - 40 * 86_400), now())
        """)
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      copy.signedDate = harness.clock.now - (isNotified ? 0 : 10 * 86_400)
      let signed = try harness.sign(copy)
      if isNotified {
        var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
        data.appAppleId = 1_500_000_001
        data.signedTransactionInfo = signed
        var payload = NotificationPayload(
          notificationType: .refundDeclined, notificationUUID: UUID().uuidString.lowercased(),
          signedDate: harness.clock.now)
        payload.data = data
        #expect(
          try await harness.notify(harness.store.identity.authority.signer.sign(payload)).status == 200)
        try await harness.service.proofs.oldProofs.run()
      } else {
        let answer = try await harness.validate(["signedTransaction": signed])
        #expect(answer.bool("entitlements.isAccessGranted") == false)
      }
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
    }
  }

  @Test func `an old proof is asked about when a renewal info gives it a billing grace`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end)
      let failed = try harness.store.perform(.failToRenew(grace: true), on: id)
      harness.clock.advance(days: 1.5)
      _ = try harness.store.perform(.refundLatest, on: id)
      harness.clock.advance(days: 0.1)
      let before = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(before.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 0)
      let answer = try await harness.validate([
        "signedTransaction": bought.signedTransaction,
        "signedRenewalInfo": try #require(failed.signedRenewalInfo),
      ])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 1)
    }
  }

  private func configuration(days: Int) -> String {
    let lifetime = #""com.example.climbing.lifetime": { "tier": "premium" }"#
    return TestApps.json.replacing(
      lifetime, with: lifetime + #", "season": { "tier": "premium", "accessDays": \#(days) }"#)
  }

  private func buySeason(_ harness: Harness) throws -> SignedOutcome {
    var app = try #require(harness.store.app(TestApps.climbing))
    app.products["season"] = .oneTime("season", type: .nonRenewingSubscription)
    harness.store.put(app)
    return try harness.buy("season")
  }

  @Test func `a copy of a non-renewing subscription is asked about, because a refund is signed on one copy`()
    async throws
  {
    try await withHarness(configuration: configuration(days: 90), environment: OldProof.keyless) { harness in
      let bought = try buySeason(harness)
      var copy = bought.transaction
      copy.transactionId = "9\(bought.transactionID)"
      let answer = try await harness.validate(["signedTransaction": harness.sign(copy)])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await OldProof.mark(bought.originalTransactionID, harness).isDue)
    }
  }

  @Test func `an old proof is asked about when the configuration gives it a longer access`() async throws {
    try await withHarness(configuration: configuration(days: 30)) { harness in
      let bought = try buySeason(harness)
      harness.clock.advance(days: 60)
      let before = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(before.bool("entitlements.isAccessGranted") == false)
      let other = try await harness.service(configuration: configuration(days: 3_650))
      let climbing = try #require(other.support.catalog[TestApps.climbing])
      let record = try #require(other.support.signed.transaction(bought.signedTransaction, in: climbing))
      let receipt = try await other.proofs.oldProofs.ledger.record(
        LedgerEntry(
          app: climbing, originalTransactionID: bought.originalTransactionID, transactions: [record],
          because: .answer(.refresh), instant: harness.clock.now))
      await other.close()
      #expect(receipt.unconfirmedProof == bought.transaction.signedDate)
      #expect(try await OldProof.mark(bought.originalTransactionID, harness).isDue)
    }
  }
}

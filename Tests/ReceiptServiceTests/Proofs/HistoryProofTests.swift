import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Ledger
@testable import Proofs
@testable import ReceiptService

/// Purchases of which the notification history tells, while reconciling has not read what came after them.
@Suite struct HistoryProofTests {
  /// A lifetime purchase of 150 days ago that was refunded 90 days later, of which the history told up to the purchase
  /// itself.
  private static func halfRead(_ harness: Harness) async throws -> (
    bought: SignedOutcome, refund: SignedOutcome
  ) {
    let bought = try harness.buy(TestApps.lifetime)
    harness.clock.advance(days: 90)
    let refund = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
    harness.clock.advance(days: 60)
    try await read(bought, harness)
    return (bought, refund)
  }

  /// Records a notification as reconciling does.
  private static func read(_ outcome: SignedOutcome, _ harness: Harness) async throws {
    let intake = harness.service.notifications
    let entry = try intake.entry(for: outcome.notification.signedPayload, from: .history)
    #expect(try await !intake.ledger.record(entry).isDuplicate)
  }

  @Test func `a client's old proof is asked about, although the half-read history told of the purchase`()
    async throws
  {
    try await withHarness { harness in
      let (bought, _) = try await Self.halfRead(harness)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == false)
      #expect(try await OldProof.calls(harness) == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
    }
  }

  @Test func `without an answer of the App Store the purchase's token is short until the history is read`()
    async throws
  {
    try await withHarness { harness in
      let (bought, refund) = try await Self.halfRead(harness)
      let keyless = try await harness.service(configuration: TestApps.json, settings: OldProof.keyless)
      try await harness.serving(keyless) { address in
        let answer = try await harness.send(
          .post, "/api/v1/subscriptions/validate",
          json: #"{"signedTransaction": "\#(bought.signedTransaction)"}"#, to: address)
        let until = try #require(answer.date("entitlements.offlineGraceUntil"))
        #expect(until < harness.clock.now + 31 * 86_400)
      }
      await keyless.close()
      try await Self.read(refund, harness)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
    }
  }

  @Test
  func `reconciling asks nothing about the purchases of its history, and leaves none of them unconfirmed`()
    async throws
  {
    try await withHarness { harness in
      let bought = try (0..<3).map { _ in try harness.buy(TestApps.lifetime) }
      harness.clock.advance(days: 150)
      try await Self.read(bought[0], harness)
      let id = bought[0].originalTransactionID
      #expect(try await OldProof.mark(id, harness).isDue)
      #expect(try await harness.service.proofs.oldProofs.run() == 0)
      let report = await harness.service.reconcile(bundleID: TestApps.climbing)
      #expect(report.contains { $0.notificationsMissed == 2 })
      for purchase in bought {
        #expect(
          try await OldProof.mark(purchase.originalTransactionID, harness)
            == OldProof.Mark(signedAt: nil, isDue: false, isAsked: false))
      }
      let calls = try await OldProof.calls(harness)
      let answer = try await harness.validate(["signedTransaction": bought[1].signedTransaction])
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await OldProof.calls(harness) == calls)
    }
  }

  @Test func `a purchase of a history that is not read on within a day is asked about`() async throws {
    try await withHarness { harness in
      let (bought, _) = try await Self.halfRead(harness)
      #expect(try await harness.service.proofs.oldProofs.run() == 0)
      harness.clock.advance(days: 1)
      #expect(try await harness.service.proofs.oldProofs.run() == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
    }
  }
}

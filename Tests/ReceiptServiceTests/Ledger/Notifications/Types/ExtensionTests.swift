import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Testing

@testable import ReceiptService

/// `RENEWAL_EXTENDED` and `RENEWAL_EXTENSION`: the developer extended the period.
@Suite struct ExtensionTests {
  @Test func `RENEWAL_EXTENDED moves the end of access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let extended = try await harness.happens(.extend(days: 14), to: bought.originalTransactionID)
      let end = try #require(bought.transaction.expiresDate?.addingTimeInterval(14 * 86_400))
      #expect(extended.transactionID == bought.transactionID)
      #expect(try await harness.latestNotification() == "RENEWAL_EXTENDED applied")
      #expect(try await harness.access(of: user, by: bought) == .active(until: end))

      // An older transaction from a client ends earlier; it must not shorten the period.
      _ = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: try await harness.token(for: user))
      #expect(try await harness.access(of: user, by: bought) == .active(until: end))
    }
  }

  @Test func `RENEWAL_EXTENSION FAILURE changes nothing`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      try await harness.happens(.failToExtend, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "RENEWAL_EXTENSION FAILURE applied")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }

  @Test func `RENEWAL_EXTENSION SUMMARY is recorded and changes nothing`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      var summary = NotificationSummary(environment: .production, bundleId: TestApps.climbing)
      summary.appAppleId = 1_500_000_001
      summary.productId = TestApps.monthly
      summary.requestIdentifier = UUID().uuidString
      summary.succeededCount = 5
      summary.failedCount = 0
      var payload = NotificationPayload(
        notificationType: .renewalExtension, notificationUUID: UUID().uuidString.lowercased(),
        signedDate: harness.clock.now.addingTimeInterval(1))
      payload.subtype = .summary
      payload.summary = summary
      let signed = try harness.store.identity.authority.signer.sign(payload)
      #expect(try await harness.notify(signed).status == 200)
      #expect(try await harness.latestNotification() == "RENEWAL_EXTENSION SUMMARY recorded")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }
}

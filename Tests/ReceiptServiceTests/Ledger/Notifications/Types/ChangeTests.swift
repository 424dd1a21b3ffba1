import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Testing

@testable import ReceiptService

/// `DID_CHANGE_RENEWAL_PREF`, `DID_CHANGE_RENEWAL_STATUS`, `PRICE_INCREASE` and the types of Advanced Commerce:
/// the customer or the app changes how the subscription renews.
@Suite struct ChangeTests {
  @Test func `DID_CHANGE_RENEWAL_PREF UPGRADE gives the other product at once`() async throws {
    try await withHarness { harness in
      try harness.sellAnnualAsHigherLevel()
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 10)
      let upgraded = try await harness.happens(
        .changeProduct(TestApps.annual), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_CHANGE_RENEWAL_PREF UPGRADE applied")
      #expect(
        try await harness.access(of: user, by: upgraded)
          == .active(TestApps.annual, until: upgraded.transaction.expiresDate))
    }
  }

  @Test func `DID_CHANGE_RENEWAL_PREF DOWNGRADE changes the product at the renewal and not before`()
    async throws
  {
    try await withHarness { harness in
      try harness.sellAnnualAsHigherLevel()
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      try await harness.happens(.changeProduct(TestApps.monthly), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_CHANGE_RENEWAL_PREF DOWNGRADE applied")
      let before = Access.active(TestApps.annual, until: bought.transaction.expiresDate)
      #expect(try await harness.access(of: user, by: bought) == before)
      let shown = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: try await harness.token(for: user))
      #expect(shown.string("subscription.renewsAs") == TestApps.monthly)

      try harness.waitForEnd(of: bought)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(
        try await harness.access(of: user, by: renewed) == .active(until: renewed.transaction.expiresDate))
    }
  }

  @Test func `DID_CHANGE_RENEWAL_PREF without a subtype cancels a downgrade`() async throws {
    try await withHarness { harness in
      try harness.sellAnnualAsHigherLevel()
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      try await harness.happens(.changeProduct(TestApps.monthly), to: bought.originalTransactionID)
      try await harness.happens(.changeProduct(TestApps.annual), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_CHANGE_RENEWAL_PREF applied")
      #expect(
        try await harness.access(of: user, by: bought)
          == .active(TestApps.annual, until: bought.transaction.expiresDate))
      let shown = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: try await harness.token(for: user))
      #expect(shown.string("subscription.renewsAs") == TestApps.annual)
    }
  }

  @Test func `DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED keeps access until the end of the period`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      #expect(
        try await harness.latestNotification() == "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_DISABLED applied")
      #expect(
        try await harness.access(of: user, by: bought)
          == .active(until: bought.transaction.expiresDate, renews: false))
      #expect(try await harness.row(of: bought.originalTransactionID).autoRenews == false)
    }
  }

  @Test func `DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED makes the subscription renew`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try await harness.happens(.setAutoRenew(true), to: bought.originalTransactionID)
      #expect(
        try await harness.latestNotification() == "DID_CHANGE_RENEWAL_STATUS AUTO_RENEW_ENABLED applied")
      #expect(
        try await harness.access(of: user, by: bought) == .active(until: bought.transaction.expiresDate))
    }
  }

  @Test func `PRICE_INCREASE PENDING and ACCEPTED change no access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      try await harness.happens(.announcePrice(5_990), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "PRICE_INCREASE PENDING applied")
      #expect(try await harness.access(of: user, by: bought) == before)
      try await harness.happens(.acceptPrice, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "PRICE_INCREASE ACCEPTED applied")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }

  @Test(arguments: [NotificationType.priceChange, .metadataUpdate, .migration])
  func `PRICE_CHANGE, METADATA_UPDATE and MIGRATION change no access`(type: NotificationType) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.access(of: user, by: bought)
      harness.clock.advance(days: 1)
      var transaction = bought.transaction
      transaction.signedDate = harness.clock.now
      var renewalInfo = try #require(bought.renewalInfo)
      renewalInfo.signedDate = harness.clock.now
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try harness.sign(transaction)
      data.signedRenewalInfo = try harness.store.identity.authority.signer.sign(renewalInfo)
      var payload = NotificationPayload(
        notificationType: type, notificationUUID: UUID().uuidString.lowercased(),
        signedDate: harness.clock.now)
      payload.data = data
      let signed = try harness.store.identity.authority.signer.sign(payload)
      #expect(try await harness.notify(signed).status == 200)
      #expect(try await harness.latestNotification() == "\(type) applied")
      #expect(try await harness.access(of: user, by: bought) == before)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

/// `DID_RENEW`, `DID_FAIL_TO_RENEW`, `GRACE_PERIOD_EXPIRED` and `EXPIRED`: a period has ended.
@Suite struct RenewalTests {
  @Test func `DID_RENEW extends access to the end of the new period`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_RENEW applied")
      #expect(renewed.transactionID != bought.transactionID)
      #expect(
        try await harness.access(of: user, by: renewed) == .active(until: renewed.transaction.expiresDate))
    }
  }

  @Test(arguments: [true, false])
  func `DID_RENEW BILLING_RECOVERY gives access again, with and without a grace period before`(grace: Bool)
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      try await harness.happens(.failToRenew(grace: grace), to: bought.originalTransactionID)
      harness.clock.advance(days: 5)
      #expect(try await harness.isPremium(user) == grace)
      let recovered = try await harness.happens(.recover, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_RENEW BILLING_RECOVERY applied")
      #expect(
        try await harness.access(of: user, by: recovered)
          == .active(until: recovered.transaction.expiresDate))
    }
  }

  @Test func `DID_FAIL_TO_RENEW GRACE_PERIOD keeps access to the end of the grace period`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      let failed = try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_FAIL_TO_RENEW GRACE_PERIOD applied")
      #expect(
        try await harness.access(of: user, by: bought)
          == .grace(until: failed.renewalInfo?.gracePeriodExpiresDate))
    }
  }

  @Test
  func
    `DID_FAIL_TO_RENEW without grace ends access with the paid period, and the store status is billing retry`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let end = try #require(bought.transaction.expiresDate)
      // The charge fails up to a day early; the paid period stays.
      harness.clock.set(end.addingTimeInterval(-3_600))
      try await harness.happens(.failToRenew(grace: false), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "DID_FAIL_TO_RENEW applied")
      #expect(try await harness.access(of: user, by: bought) == .active(until: end))
      harness.clock.set(end)
      _ = try await harness.service.sweep.run()
      #expect(try await harness.access(of: user, by: bought) == .billingRetry(since: end))
    }
  }

  @Test func `GRACE_PERIOD_EXPIRED ends access with the grace period, and the store status is billing retry`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      let failed = try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      harness.clock.set(try #require(failed.renewalInfo?.gracePeriodExpiresDate))
      #expect(try await harness.isPremium(user) == false)
      try await harness.happens(.endGrace, to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "GRACE_PERIOD_EXPIRED applied")
      let access = try await harness.access(of: user, by: bought)
      #expect(access.status == "expired")
      #expect(access.storeStatus == "billingRetry")
      #expect(access.renews)
    }
  }

  @Test(arguments: [
    (ExpirationIntent.customerCancelled, "VOLUNTARY "),
    (.customerDidNotConsentToPriceIncrease, "PRICE_INCREASE "),
    (.productNotAvailable, "PRODUCT_NOT_FOR_SALE "), (.other, ""),
  ])
  func `EXPIRED ends access, whatever the subtype`(
    reason: (intent: ExpirationIntent, subtype: String)
  ) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      try await harness.happens(.expire(reason.intent), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "EXPIRED \(reason.subtype)applied")
      #expect(
        try await harness.access(of: user, by: bought) == .expired(at: bought.transaction.expiresDate))
    }
  }

  @Test func `EXPIRED BILLING_RETRY ends the billing retry`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try harness.waitForEnd(of: bought)
      try await harness.happens(.failToRenew(grace: false), to: bought.originalTransactionID)
      harness.clock.advance(days: 59)
      #expect(try await harness.access(of: user, by: bought).storeStatus == "billingRetry")
      try await harness.happens(.expire(.billingError), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "EXPIRED BILLING_RETRY applied")
      #expect(
        try await harness.access(of: user, by: bought) == .expired(at: bought.transaction.expiresDate))
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import Ledger
@testable import ReceiptService

/// Ten scenarios that simple implementations get wrong, each over HTTP.
@Suite struct TenScenariosTests {
  @Test func `a refund of an earlier period keeps access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      harness.clock.advance(days: 3)
      try await harness.happens(
        .refund(transactionID: bought.transactionID, percentage: 100, reason: .refundedForOtherReason),
        to: bought.originalTransactionID)

      let answer = try await harness.premium(user)
      #expect(answer.bool("isPremium") == true)
      #expect(answer.date("premiumExpiresAt") == renewed.transaction.expiresDate)
      #expect(answer.bool("willRenew") == true)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      #expect(try await harness.profileRow(of: user)?.expiresAt == renewed.transaction.expiresDate)
    }
  }

  @Test func `a refund of the current period ends access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 3)
      #expect(try await harness.isPremium(user))
      let refunded = try await harness.happens(.refundLatest, to: bought.originalTransactionID)

      let answer = try await harness.premium(user)
      #expect(answer.bool("isPremium") == false)
      #expect(answer.isNull("premiumExpiresAt"))
      #expect(answer.string("entitlements.status") == "cancelled")
      let row = try await harness.row(of: bought.originalTransactionID)
      #expect(row.storeStatus == "revoked")
      #expect(row.revoked == refunded.transaction.revocationDate)
      #expect(try await harness.profileRow(of: user) == ProfileRow())
    }
  }

  @Test func `a reversed refund restores access to the end of the paid period`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.isPremium(user) == false)
      harness.clock.advance(days: 2)
      try await harness.happens(.reverseRefund(transactionID: nil), to: bought.originalTransactionID)

      let answer = try await harness.premium(user)
      #expect(answer.bool("isPremium") == true)
      #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
    }
  }

  @Test func `billing grace keeps access exactly to its end`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let paidUntil = try #require(bought.transaction.expiresDate)
      harness.clock.set(paidUntil)
      let failed = try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      let end = try #require(failed.renewalInfo?.gracePeriodExpiresDate)
      #expect(end > paidUntil)

      harness.clock.set(end.addingTimeInterval(-0.001))
      let last = try await harness.premium(user)
      #expect(last.bool("isPremium") == true)
      #expect(last.bool("isInGracePeriod") == true)
      #expect(last.date("entitlements.validUntil") == end)
      harness.clock.set(end)
      let over = try await harness.premium(user)
      #expect(over.bool("isPremium") == false)
      #expect(over.bool("isInGracePeriod") == false)
      #expect(over.string("entitlements.status") == "expired")
    }
  }

  @Test func `an older transaction from before a refund does not restore access`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      harness.clock.advance(days: 1)

      let token = try await harness.token(for: user)
      let shown = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      #expect(shown.status == 200)
      #expect(shown.string("subscription.status") == "cancelled")
      #expect(shown.bool("entitlements.isAccessGranted") == false)
      let synced = try await harness.sync([bought.signedTransaction], user: user, token: token)
      #expect(synced.bool("isPremium") == false)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
      #expect(try await harness.profileRow(of: user) == ProfileRow())
    }
  }

  @Test func `a refunded upgrade ends access, and the replaced subscription does not return`() async throws {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      try await harness.arrives(bought)
      harness.clock.advance(days: 5)
      let upgraded = try await harness.happens(
        .changeProduct(TestApps.familyPlan), to: bought.originalTransactionID)
      #expect(try await harness.device("phone", shows: upgraded).string("entitlements.tier") == "family")
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)

      // Neither the refunded purchase nor the replaced one, with 24 days left, grants access.
      for shown in [upgraded, bought] {
        let answer = try await harness.device("phone", shows: shown)
        #expect(answer.bool("entitlements.isAccessGranted") == false)
        #expect(answer.string("subscription.status") == "cancelled")
        #expect(answer["entitlements.features.childDevices"] as? Int == 0)
      }
      let row = try await harness.row(of: bought.originalTransactionID)
      #expect(row.status == "cancelled")
      #expect(row.transactionID == upgraded.transactionID)
    }
  }

  @Test func `a revocation ends a family member's access, not the purchaser's`() async throws {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      try await harness.arrives(bought)
      let shared = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.family, productID: TestApps.familyPlan, ownership: .familyShared))
      try await harness.arrives(shared)
      #expect(shared.originalTransactionID != bought.originalTransactionID)
      let member = try await harness.device("member", shows: shared)
      #expect(member.string("subscription.ownership") == "FAMILY_SHARED")
      #expect(member.bool("entitlements.isAccessGranted") == true)
      #expect(
        try await harness.device("purchaser", shows: bought).bool("entitlements.isAccessGranted") == true)

      harness.clock.advance(days: 1)
      try await harness.happens(.revoke, to: shared.originalTransactionID)
      let after = try await harness.device("member", shows: shared)
      #expect(after.bool("entitlements.isAccessGranted") == false)
      #expect(after.string("subscription.storeStatus") == "revoked")
      #expect(
        try await harness.device("purchaser", shows: bought).bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
    }
  }

  @Test func `access ends at the expiry date if EXPIRED never arrives`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end.addingTimeInterval(-0.001))
      #expect(try await harness.isPremium(user))
      harness.clock.set(end)
      #expect(try await harness.isPremium(user) == false)

      // The next sweep updates the row and the profile.
      #expect(try await harness.service.sweep.run() == 1)
      let row = try await harness.row(of: bought.originalTransactionID)
      #expect(row.status == "expired")
      #expect(row.storeStatus == "expired")
    }
  }

  @Test func `reconciliation finds a renewal if DID_RENEW never arrives`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try harness.store.perform(.renew, on: bought.originalTransactionID)
      harness.clock.advance(seconds: 3_600)
      #expect(try await harness.isPremium(user) == false)

      let reports = await harness.service.reconcile()
      #expect(reports.reduce(0) { $0 + $1.repairCount } == 1)
      let answer = try await harness.premium(user)
      #expect(answer.bool("isPremium") == true)
      #expect(answer.date("premiumExpiresAt") == renewed.transaction.expiresDate)
      #expect(try await harness.profileRow(of: user)?.expiresAt == renewed.transaction.expiresDate)
    }
  }

  @Test func `ten consumption requests change nothing`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let row = try await harness.row(of: bought.originalTransactionID)
      let profile = try await harness.profileRow(of: user)
      for _ in 0..<10 {
        harness.clock.advance(seconds: 60)
        try await harness.happens(
          .requestConsumption(transactionID: nil, reason: .unintendedPurchase),
          to: bought.originalTransactionID)
      }
      #expect(try await harness.count("notifications") == 11)
      #expect(try await harness.row(of: bought.originalTransactionID) == row)
      #expect(try await harness.profileRow(of: user) == profile)
      #expect(try await harness.isPremium(user))
    }
  }
}

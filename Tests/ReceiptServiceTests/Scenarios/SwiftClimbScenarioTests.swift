import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

/// Scenarios of SwiftClimb.
@Suite struct SwiftClimbScenarioTests {
  @Test func `SwiftClimb's free tier has limited features, and Premium has every feature`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let free = try await anna.fetches()
      #expect(free.features == ["sessionHistoryDays": "30", "insights": "0", "outdoorSearch": "0"])
      #expect(free.bool("entitlements.isAccessGranted") == false)
      _ = try await anna.buys(SwiftClimb.monthly)
      let premium = try await anna.fetches()
      #expect(premium.isNull("entitlements.features.sessionHistoryDays"))
      #expect(premium.bool("entitlements.features.insights") == true)
      #expect(premium.bool("entitlements.features.outdoorSearch") == true)
    }
  }

  @Test(arguments: [SwiftClimb.monthly, SwiftClimb.annual])
  func `a SwiftClimb purchase gives premium in the response and on the profile`(productID: String)
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try await anna.buys(productID)
      let validated = try await anna.validates(bought)
      #expect(validated.status == 200)
      #expect(validated.string("subscription.status") == "active")
      // Premium, expiry, product, grace period, renewal.
      let answer = try await anna.fetches()
      #expect(answer.bool("isPremium") == true)
      #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
      #expect(answer.string("premiumProductID") == productID)
      #expect(answer.string("premiumOriginalTransactionID") == bought.originalTransactionID)
      #expect(answer.bool("isInGracePeriod") == false)
      #expect(answer.bool("willRenew") == true)
      let row = try await harness.profileRow(of: anna.id)
      #expect(row?.expiresAt == bought.transaction.expiresDate)
      #expect(row?.product == productID)
      #expect(row?.originalTransactionID == bought.originalTransactionID)
    }
  }

  @Test(arguments: ["monthly": SwiftClimb.monthly, "annual": SwiftClimb.annual].sorted { $0.key < $1.key })
  func `SwiftClimb's product aliases of older builds are the same products`(name: String, productID: String)
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      _ = try await anna.buys("swiftclimb.premium.\(name)")
      let answer = try await anna.fetches()
      #expect(answer.bool("isPremium") == true)
      #expect(answer.string("premiumProductID") == productID)
    }
  }

  @Test func `a SwiftClimb purchase that waits for Ask to Buy gives premium after the approval`() async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let request = try harness.store.ask(
        PurchaseRequest(
          bundleID: SwiftClimb.bundleID, productID: SwiftClimb.monthly, appAccountToken: anna.id))
      // StoreKit reports 'pending': the app has no transaction and syncs an empty list.
      let pending = try await anna.syncs([])
      #expect(pending.status == 200)
      #expect(pending.bool("isPremium") == false)
      harness.clock.advance(seconds: 3_600)

      let bought = try harness.store.approve(request)
      // StoreKit may deliver the transaction before the App Store's notification.
      let answer = try await anna.syncs([bought])
      #expect(answer.bool("isPremium") == true)
      #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
      #expect(bought.transaction.purchaseDate == harness.clock.now)
      try await harness.arrives(bought)
      #expect(try await anna.isPremium() == true)
    }
  }

  @Test func `a SwiftClimb purchase that is declined by Ask to Buy gives no premium`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let request = try harness.store.ask(
        PurchaseRequest(
          bundleID: SwiftClimb.bundleID, productID: SwiftClimb.monthly, appAccountToken: anna.id))
      _ = try await anna.syncs([])
      try harness.store.decline(request)
      harness.clock.advance(days: 2)
      #expect(try await anna.syncs([]).bool("isPremium") == false)
      #expect(try await harness.count("subscriptions") == 0)
      // A later purchase works.
      _ = try await anna.buys(SwiftClimb.monthly)
      #expect(try await anna.isPremium() == true)
    }
  }

  @Test func `a SwiftClimb restore gives premium without a notification`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try harness.buy(SwiftClimb.annual, bundleID: SwiftClimb.bundleID)
      // The notification was lost; the device syncs its transaction twice.
      for _ in 0..<2 {
        let restored = try await anna.syncs([bought])
        #expect(restored.bool("isPremium") == true)
        #expect(restored.string("premiumOriginalTransactionID") == bought.originalTransactionID)
      }
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test func `a SwiftClimb restore without transactions changes nothing`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let nothing = try await anna.syncs([])
      #expect(nothing.status == 200)
      #expect(nothing.bool("isPremium") == false)
      #expect(nothing.isNull("premiumProductID"))
      #expect(try await harness.count("subscriptions") == 0)
      // An empty sync does not remove another device's purchase.
      _ = try await anna.buys(SwiftClimb.monthly)
      #expect(try await anna.syncs([]).bool("isPremium") == true)
    }
  }

  @Test func `a SwiftClimb restore after a reinstall gives the renewed period`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try await anna.buys(SwiftClimb.monthly)
      _ = try await anna.syncs([bought])
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      // After signing in the new installation fetches, and then syncs the latest transaction.
      #expect(try await anna.isPremium() == true)
      let restored = try await anna.syncs([renewed])
      #expect(restored.date("premiumExpiresAt") == renewed.transaction.expiresDate)
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test func `a SwiftClimb client that fetches at validUntil sees renewal and expiry`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try await anna.buys(SwiftClimb.monthly)
      // A client that fetches again at `validUntil` is always up to date.
      let open = try #require(try await anna.fetches().date("entitlements.validUntil"))
      #expect(open == bought.transaction.expiresDate)
      harness.clock.set(open - 1)
      #expect(try await anna.isPremium() == true)

      harness.clock.set(open)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      let again = try await anna.fetches()
      #expect(again.bool("isPremium") == true)
      let next = try #require(again.date("entitlements.validUntil"))
      #expect(next == renewed.transaction.expiresDate)

      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      #expect(try await anna.fetches().bool("willRenew") == false)
      harness.clock.set(next)
      let over = try await anna.fetches()
      #expect(over.bool("isPremium") == false)
      #expect(over.isNull("entitlements.validUntil"))
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "expired")
    }
  }

  @Test func `a SwiftClimb subscription of another Apple Account stays with its owner`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let boris = harness.user(of: SwiftClimb.bundleID)
      let hers = try await anna.buys(SwiftClimb.annual, account: "anna's")
      let his = try await boris.buys(SwiftClimb.monthly, account: "boris's")
      // Anna signs in on Boris's phone, where StoreKit has the purchase of his account.
      let shown = try await anna.syncs([his])
      #expect(shown.status == 409)
      #expect(shown.code == "belongs_to_another_customer")
      #expect(shown.string("error") == "This purchase is linked to another account of this app.")
      #expect(try await anna.fetches().string("premiumOriginalTransactionID") == hers.originalTransactionID)
      #expect(try await boris.fetches().string("premiumOriginalTransactionID") == his.originalTransactionID)
    }
  }

  @Test func `a SwiftClimb subscription of another user stays with its owner`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let boris = harness.user(of: SwiftClimb.bundleID)
      // Bought without an appAccountToken: the first user to prove it owns it.
      let bought = try harness.buy(SwiftClimb.monthly, bundleID: SwiftClimb.bundleID)
      #expect(try await anna.syncs([bought]).bool("isPremium") == true)
      for _ in 0..<3 {
        #expect(try await boris.syncs([bought]).code == "belongs_to_another_customer")
        #expect(try await boris.isPremium() == false)
        #expect(try await anna.isPremium() == true)
      }
      #expect(try await boris.validates(bought).status == 409)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == anna.id)
      #expect(try await harness.profileRow(of: boris.id)?.product == nil)
    }
  }

  @Test func `two devices of one SwiftClimb user get the same response`() async throws {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try harness.buy(SwiftClimb.annual, bundleID: SwiftClimb.bundleID)
      let phone = try await anna.syncs([bought])
      let tablet = try await anna.syncs([])
      let fetched = try await anna.fetches()
      for answer in [tablet, fetched] {
        for member in ["premiumExpiresAt", "premiumProductID", "entitlements.status"] {
          #expect(answer.string(member) == phone.string(member))
        }
      }
    }
  }

  @Test
  func `SwiftClimb's premium is kept offline for the paid time, and for 7 days after the last response`()
    async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try await anna.buys(SwiftClimb.monthly)
      let end = try #require(bought.transaction.expiresDate)
      for _ in 0..<2 {
        let answer = try await anna.fetches()
        #expect(answer.date("entitlements.offlineGraceUntil") == end)
        harness.clock.advance(days: 3)
      }
      harness.clock.set(end - 86_400)
      let late = try await anna.fetches()
      #expect(late.date("entitlements.offlineGraceUntil") == harness.clock.now + 7 * 86_400)
    }
  }

  @Test func `a SwiftClimb user in billing grace is premium, and the response shows the grace`() async throws
  {
    try await withShippedApps { harness in
      let anna = harness.user(of: SwiftClimb.bundleID)
      let bought = try await anna.buys(SwiftClimb.monthly)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      let grace = try await anna.fetches()
      #expect(grace.bool("isPremium") == true)
      #expect(grace.bool("isInGracePeriod") == true)
      let end = try #require(try await harness.row(of: bought.originalTransactionID).graceExpiry)
      #expect(grace.date("premiumExpiresAt") == end)
      harness.clock.set(end)
      #expect(try await anna.isPremium() == false)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

/// `SUBSCRIBED` and `ONE_TIME_CHARGE`: a purchase.
@Suite struct SubscribedTests {
  @Test func `SUBSCRIBED INITIAL_BUY gives access until the end of the first period`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      #expect(try await harness.latestNotification() == "SUBSCRIBED INITIAL_BUY applied")
      #expect(
        try await harness.access(of: user, by: bought) == .active(until: bought.transaction.expiresDate))
    }
  }

  @Test(arguments: [
    StoreOffer.freeTrial(), .discount(.promotionalOffer), .discount(.offerCode),
    .discount(.offerCode, period: StorePeriod(3, .month)),
  ])
  func `SUBSCRIBED INITIAL_BUY with an offer gives access until the end of the offer's period`(
    offer: StoreOffer
  ) async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, appAccountToken: user, offer: offer))
      #expect(bought.transaction.offerType == offer.type)
      try await harness.arrives(bought)
      #expect(try await harness.latestNotification() == "SUBSCRIBED INITIAL_BUY applied")
      #expect(
        try await harness.access(of: user, by: bought) == .active(until: bought.transaction.expiresDate))
      try harness.waitForEnd(of: bought)
      #expect(try await harness.isPremium(user) == false)
    }
  }

  @Test(arguments: [nil, StoreOffer.discount(.winBackOffer)])
  func `SUBSCRIBED RESUBSCRIBE gives access again, under the same purchase`(offer: StoreOffer?) async throws {
    try await withHarness { harness in
      let user = UUID()
      func request(_ offer: StoreOffer?) -> PurchaseRequest {
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, accountID: "ann", appAccountToken: user,
          offer: offer)
      }
      let bought = try harness.store.buy(request(nil))
      try await harness.arrives(bought)
      try harness.waitForEnd(of: bought)
      try await harness.happens(.expire(.customerCancelled), to: bought.originalTransactionID)
      #expect(try await harness.isPremium(user) == false)

      harness.clock.advance(days: 20)
      let again = try harness.store.buy(request(offer))
      try await harness.arrives(again)
      #expect(again.originalTransactionID == bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "SUBSCRIBED RESUBSCRIBE applied")
      #expect(try await harness.access(of: user, by: again) == .active(until: again.transaction.expiresDate))
    }
  }

  @Test func `ONE_TIME_CHARGE of a non-consumable grants access without expiry`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.lifetime)
      #expect(try await harness.latestNotification() == "ONE_TIME_CHARGE applied")
      let forGood = Access.active(TestApps.lifetime, until: nil, renews: false)
      #expect(try await harness.access(of: user, by: bought) == forGood)
      harness.clock.advance(days: 4_000)
      #expect(try await harness.isPremium(user))
    }
  }

  @Test func `ONE_TIME_CHARGE of a consumable that is not in the catalog is stored and grants nothing`()
    async throws
  {
    try await withHarness { harness in
      var app = try #require(harness.store.app(TestApps.climbing))
      app.products["coins"] = .oneTime("coins", type: .consumable)
      harness.store.put(app)
      let user = UUID()
      let bought = try harness.buy("coins", token: user)
      try await harness.arrives(bought)
      #expect(try await harness.latestNotification() == "ONE_TIME_CHARGE unknown_product")
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.count("transactions") == 1)
    }
  }

  @Test func `ONE_TIME_CHARGE of a non-renewing subscription gives access for the catalog's number of days`()
    async throws
  {
    let seasonal = TestApps.json.replacing(
      #""com.example.climbing.lifetime": { "tier": "premium" }"#,
      with:
        #""com.example.climbing.lifetime": { "tier": "premium" }, "season": { "tier": "premium", "accessDays": 90 }"#
    )
    try await withHarness(configuration: seasonal) { harness in
      var app = try #require(harness.store.app(TestApps.climbing))
      app.products["season"] = .oneTime("season", type: .nonRenewingSubscription)
      harness.store.put(app)
      let user = UUID()
      let bought = try harness.buy("season", token: user)
      try await harness.arrives(bought)
      let end = bought.transaction.purchaseDate.addingTimeInterval(90 * 86_400)
      #expect(
        try await harness.access(of: user, by: bought) == .active("season", until: end, renews: false))
      harness.clock.set(end)
      #expect(try await harness.isPremium(user) == false)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

/// `OFFER_REDEEMED`: a purchase or a change of plan with an offer.
@Suite struct OfferRedeemedTests {
  private func request(_ user: UUID, _ type: OfferType?) -> PurchaseRequest {
    PurchaseRequest(
      bundleID: TestApps.climbing, productID: TestApps.monthly, accountID: "ann", appAccountToken: user,
      offer: type.map { .discount($0) }, announcesOffer: type != nil)
  }

  @Test func `OFFER_REDEEMED INITIAL_BUY gives access until the end of the offer's period`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.store.buy(request(user, .offerCode))
      try await harness.arrives(bought)
      #expect(try await harness.latestNotification() == "OFFER_REDEEMED INITIAL_BUY applied")
      #expect(
        try await harness.access(of: user, by: bought) == .active(until: bought.transaction.expiresDate))
    }
  }

  @Test func `OFFER_REDEEMED RESUBSCRIBE gives access again`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.store.buy(request(user, nil))
      try await harness.arrives(bought)
      try harness.waitForEnd(of: bought)
      try await harness.happens(.expire(nil), to: bought.originalTransactionID)
      harness.clock.advance(days: 40)
      let back = try harness.store.buy(request(user, .winBackOffer))
      try await harness.arrives(back)
      #expect(try await harness.latestNotification() == "OFFER_REDEEMED RESUBSCRIBE applied")
      #expect(try await harness.access(of: user, by: back) == .active(until: back.transaction.expiresDate))
    }
  }

  @Test func `OFFER_REDEEMED UPGRADE gives the other product at once`() async throws {
    try await withHarness { harness in
      try harness.sellAnnualAsHigherLevel()
      let (user, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      let upgraded = try await harness.happens(
        .redeem(.discount(.promotionalOffer), productID: TestApps.annual), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "OFFER_REDEEMED UPGRADE applied")
      #expect(
        try await harness.access(of: user, by: upgraded)
          == .active(TestApps.annual, until: upgraded.transaction.expiresDate))
    }
  }

  @Test func `OFFER_REDEEMED DOWNGRADE changes nothing before the renewal`() async throws {
    try await withHarness { harness in
      try harness.sellAnnualAsHigherLevel()
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      try await harness.happens(
        .redeem(.discount(.offerCode), productID: TestApps.monthly), to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "OFFER_REDEEMED DOWNGRADE applied")
      #expect(
        try await harness.access(of: user, by: bought)
          == .active(TestApps.annual, until: bought.transaction.expiresDate))
    }
  }

  @Test func `OFFER_REDEEMED without a subtype applies to the next period and changes nothing before it`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await harness.happens(
        .redeem(.discount(.promotionalOffer, period: StorePeriod(2, .month)), productID: nil),
        to: bought.originalTransactionID)
      #expect(try await harness.latestNotification() == "OFFER_REDEEMED applied")
      #expect(
        try await harness.access(of: user, by: bought) == .active(until: bought.transaction.expiresDate))
      try harness.waitForEnd(of: bought)
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(renewed.transaction.offerType == .promotionalOffer)
      #expect(
        try await harness.access(of: user, by: renewed) == .active(until: renewed.transaction.expiresDate))
    }
  }
}

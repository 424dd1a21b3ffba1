import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct OfferTests {
  @Test(arguments: [
    StoreOffer.freeTrial(), .discount(.promotionalOffer), .discount(.offerCode),
  ])
  func `a first purchase with an offer sends SUBSCRIBED with the offer's type, price and period`(
    offer: StoreOffer
  ) throws {
    var store = Climb.store()
    let bought = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, offer: offer), at: Climb.start)
    #expect(bought.notification.type == .subscribed)
    #expect(bought.notification.subtype == .initialBuy)
    #expect(bought.transaction.offerType == offer.type)
    #expect(bought.transaction.offerIdentifier == offer.identifier)
    #expect(bought.transaction.price == offer.price)
    #expect(bought.transaction.offerPeriod == offer.period.text)
  }

  @Test func `a first and a later purchase can be announced with OFFER_REDEEMED`() throws {
    var store = Climb.store()
    func request(_ type: OfferType) -> PurchaseRequest {
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann", offer: .discount(type),
        announcesOffer: true)
    }
    let first = try store.buy(request(.offerCode), at: Climb.start)
    #expect(first.notification.type == .offerRedeemed)
    #expect(first.notification.subtype == .initialBuy)
    let again = try store.buy(request(.winBackOffer), at: .day(90))
    #expect(again.notification.type == .offerRedeemed)
    #expect(again.notification.subtype == .resubscribe)
    #expect(again.originalTransactionID == first.originalTransactionID)
    #expect(store.status(of: first.originalTransactionID, at: .day(90)) == .active)
  }

  @Test func `introductory offers are for new customers and win-back offers for former subscribers`() throws {
    var store = Climb.store()
    func request(_ offer: StoreOffer) -> PurchaseRequest {
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.monthly, accountID: "ann", offer: offer)
    }
    #expect(throws: StoreRefusal.notEligible(.winBackOffer)) {
      try store.buy(request(.discount(.winBackOffer)), at: Climb.start)
    }
    _ = try store.buy(request(.freeTrial()), at: Climb.start)
    #expect(throws: StoreRefusal.notEligible(.introductoryOffer)) {
      try store.buy(request(.freeTrial()), at: .day(30))
    }
    let back = try store.buy(request(.discount(.winBackOffer)), at: .day(30))
    #expect(back.notification.subtype == .resubscribe)
    #expect(back.transaction.offerType == .winBackOffer)
  }

  @Test func `an offer for the current product applies to the next period only`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let redeemed = try store.perform(
      .redeem(.discount(.offerCode, price: 490, period: .week), productID: nil), on: id, at: .day(5))
    #expect(redeemed.notification.type == .offerRedeemed)
    #expect(redeemed.notification.subtype == nil)
    #expect(redeemed.transaction.transactionId == bought.transaction.transactionId)
    #expect(redeemed.transaction.offerType == nil)
    #expect(redeemed.renewalInfo?.offerType == .offerCode)
    #expect(redeemed.renewalInfo?.renewalPrice == 490)

    let renewed = try store.perform(.renew, on: id, at: .day(31))
    #expect(renewed.transaction.offerType == .offerCode)
    #expect(renewed.transaction.price == 490)
    #expect(renewed.transaction.expiresDate == .day(38))
    #expect(renewed.renewalInfo?.offerType == nil)
    let full = try store.perform(.renew, on: id, at: .day(38))
    #expect(full.transaction.price == 4990)
    #expect(full.transaction.offerType == nil)
  }

  @Test func `an offer for a higher product upgrades at once`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let redeemed = try store.perform(
      .redeem(.discount(.promotionalOffer, price: 0, period: .week), productID: Climb.family), on: id,
      at: .day(5))
    #expect(redeemed.notification.type == .offerRedeemed)
    #expect(redeemed.notification.subtype == .upgrade)
    #expect(redeemed.transaction.productId == Climb.family)
    #expect(redeemed.transaction.offerType == .promotionalOffer)
    #expect(redeemed.transaction.expiresDate == .day(12))
    #expect(store.truth(of: id, at: .day(5))?.productID == Climb.family)
  }

  @Test func `an offer for a lower product takes effect at the renewal`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.family, at: Climb.start).originalTransactionID
    let redeemed = try store.perform(
      .redeem(.discount(.promotionalOffer, price: 1), productID: Climb.monthly), on: id, at: .day(5))
    #expect(redeemed.notification.subtype == .downgrade)
    #expect(redeemed.transaction.productId == Climb.family)
    #expect(redeemed.renewalInfo?.autoRenewProductId == Climb.monthly)
    let renewed = try store.perform(.renew, on: id, at: .day(31))
    #expect(renewed.transaction.productId == Climb.monthly)
    #expect(renewed.transaction.price == 1)
  }

  @Test func `an ended subscription cannot redeem an offer for active subscriptions`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.notEligible(.introductoryOffer)) {
      try store.perform(.redeem(.freeTrial(), productID: nil), on: id, at: .day(1))
    }
    #expect(throws: StoreRefusal.notActive) {
      try store.perform(.redeem(.discount(.offerCode), productID: nil), on: id, at: .day(31))
    }
  }
}

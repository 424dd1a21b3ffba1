import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct ChangeTests {
  @Test func `a customer can turn renewal off and on`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let off = try store.perform(.setAutoRenew(false), on: id, at: .day(1))
    #expect(off.notification.type == .didChangeRenewalStatus)
    #expect(off.notification.subtype == .autoRenewDisabled)
    #expect(off.notification.status == .active)
    #expect(off.renewalInfo?.autoRenewStatus == .off)
    #expect(off.renewalInfo?.renewalPrice == nil)
    #expect(throws: StoreRefusal.renewalIsOff) { try store.perform(.renew, on: id, at: .day(31)) }
    let on = try store.perform(.setAutoRenew(true), on: id, at: .day(2))
    #expect(on.notification.subtype == .autoRenewEnabled)
    #expect(store.truth(of: id, at: .day(2))?.autoRenews == true)
  }

  @Test func `an upgrade takes effect at once and marks the replaced transaction`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let upgraded = try store.perform(.changeProduct(Climb.family), on: id, at: .day(10))
    #expect(upgraded.notification.type == .didChangeRenewalPref)
    #expect(upgraded.notification.subtype == .upgrade)
    #expect(upgraded.transaction.productId == Climb.family)
    #expect(upgraded.transaction.purchaseDate == .day(10))
    #expect(upgraded.transaction.expiresDate == .day(41))
    #expect(upgraded.transaction.originalTransactionId == id)
    #expect(upgraded.renewalInfo?.autoRenewProductId == Climb.family)
    let replaced = store.signable(bought.transaction.transactionId, of: Climb.bundleID, at: .day(11))
    #expect(replaced?.isUpgraded == true)
    #expect(replaced?.revocationDate == nil)
    #expect(store.truth(of: id, at: .day(11))?.productID == Climb.family)
  }

  @Test func `an upgrade after the next renewal was charged begins at once, before that renewal`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let charged = try store.perform(.renew, on: id, at: .day(30.5))
    #expect(charged.transaction.purchaseDate == .day(31))
    let upgraded = try store.perform(.changeProduct(Climb.family), on: id, at: .day(30.75))
    #expect(upgraded.transaction.purchaseDate == .day(30.75))
    #expect(upgraded.transaction.transactionReason == .purchase)
    let replaced = store.signable(charged.transaction.transactionId, of: Climb.bundleID, at: .day(32))
    #expect(replaced?.isUpgraded == true)
    for day in [30.75, 31, 32] {
      #expect(store.truth(of: id, at: .day(day))?.entitledProductID == Climb.family)
    }
  }

  @Test func `a purchase right after a charged renewal is dated after its signature`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let charged = try store.perform(.renew, on: id, at: .day(30.5))
    let upgraded = try store.perform(.changeProduct(Climb.family), on: id, at: .day(30.5))
    #expect(upgraded.transaction.purchaseDate > charged.transaction.signedDate)
    #expect(upgraded.transaction.purchaseDate < charged.transaction.purchaseDate)
  }

  @Test func `a downgrade takes effect at the renewal and can be cancelled before`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.family, at: Climb.start).originalTransactionID
    let planned = try store.perform(.changeProduct(Climb.monthly), on: id, at: .day(1))
    #expect(planned.notification.type == .didChangeRenewalPref)
    #expect(planned.notification.subtype == .downgrade)
    #expect(planned.transaction.productId == Climb.family)
    #expect(planned.renewalInfo?.productId == Climb.family)
    #expect(planned.renewalInfo?.autoRenewProductId == Climb.monthly)
    #expect(planned.renewalInfo?.renewalPrice == 4990)

    let cancelled = try store.perform(.changeProduct(Climb.family), on: id, at: .day(2))
    #expect(cancelled.notification.subtype == nil)
    #expect(cancelled.renewalInfo?.autoRenewProductId == Climb.family)

    _ = try store.perform(.changeProduct(Climb.monthly), on: id, at: .day(3))
    let renewed = try store.perform(.renew, on: id, at: .day(31))
    #expect(renewed.transaction.productId == Climb.monthly)
    #expect(renewed.transaction.price == 4990)
  }

  @Test func `a change to another length of the same level takes effect at the renewal`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let planned = try store.perform(.changeProduct(Climb.annual), on: id, at: .day(1))
    #expect(planned.notification.subtype == .downgrade)
    let renewed = try store.perform(.renew, on: id, at: .day(31))
    #expect(renewed.transaction.productId == Climb.annual)
    #expect(renewed.transaction.expiresDate == .day(31 + 365))
    #expect(throws: StoreRefusal.otherGroup(Climb.lifetime)) {
      try store.perform(.changeProduct(Climb.lifetime), on: id, at: .day(32))
    }
  }

  @Test func `a price increase is announced, accepted and charged`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.noPriceIncrease) { try store.perform(.acceptPrice, on: id, at: .day(1)) }
    let pending = try store.perform(.announcePrice(5990), on: id, at: .day(1))
    #expect(pending.notification.type == .priceIncrease)
    #expect(pending.notification.subtype == .pending)
    #expect(pending.renewalInfo?.priceIncreaseStatus == .customerHasNotResponded)
    #expect(pending.renewalInfo?.renewalPrice == 5990)
    let accepted = try store.perform(.acceptPrice, on: id, at: .day(2))
    #expect(accepted.notification.subtype == .accepted)
    let renewed = try store.perform(.renew, on: id, at: .day(31))
    #expect(renewed.transaction.price == 5990)
  }

  @Test func `a change to the same level and length takes effect at once, with a token of its own`()
    throws
  {
    var app = Climb.app
    app.products["climb.other"] = .subscription("climb.other")
    var store = Climb.store(app: app)
    let bought = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, appAccountToken: UUID()),
      at: Climb.start)
    let token = UUID()
    let changed = try store.perform(
      .changeProduct("climb.other", appAccountToken: token), on: bought.originalTransactionID, at: .day(3))
    #expect(changed.notification.subtype == .upgrade)
    #expect(changed.transaction.purchaseDate == .day(3))
    #expect(changed.transaction.appAccountToken == token)
  }
}

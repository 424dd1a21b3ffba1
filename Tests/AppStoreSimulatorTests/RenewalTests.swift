import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct RenewalTests {
  @Test func `a renewal begins at the end of the previous period`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let renewed = try store.perform(.renew, on: id, at: .day(31) + 5)
    #expect(renewed.notification.type == .didRenew)
    #expect(renewed.notification.subtype == nil)
    #expect(renewed.transaction.transactionReason == .renewal)
    #expect(renewed.transaction.purchaseDate == .day(31))
    #expect(renewed.transaction.expiresDate == .day(59))  // February 2026 has 28 days.
    #expect(renewed.transaction.originalTransactionId == id)
    #expect(renewed.transaction.originalPurchaseDate == Climb.start)
    #expect(renewed.transaction.webOrderLineItemId != bought.transaction.webOrderLineItemId)
    #expect(renewed.transaction.appTransactionId == bought.transaction.appTransactionId)
    #expect(store.truth(of: id, at: .day(40))?.transactionID == renewed.transaction.transactionId)
  }

  @Test func `a renewal long before it is due begins at once and extends the paid time`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let renewed = try store.perform(.renew, on: id, at: .day(2))
    #expect(renewed.transaction.purchaseDate == .day(2))
    #expect(renewed.transaction.expiresDate == .day(59))
  }

  @Test func `a renewal long after the expiry begins at its purchase`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let renewed = try store.perform(.renew, on: id, at: .day(365))
    #expect(renewed.transaction.purchaseDate == .day(365))
    #expect(store.status(of: id, at: .day(366)) == .active)
  }

  @Test func `a subscription without a renewal expires at the end of its period`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(store.status(of: id, at: .day(31) - Date.millisecond) == .active)
    #expect(store.status(of: id, at: .day(31)) == .expired)
    #expect(store.truth(of: id, at: .day(31))?.grantsAccess == false)
  }

  @Test func `billing grace keeps access until its last millisecond`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let failed = try store.perform(.failToRenew(grace: nil), on: id, at: .day(31))
    #expect(failed.notification.type == .didFailToRenew)
    #expect(failed.notification.subtype == .gracePeriod)
    #expect(failed.notification.status == .billingGracePeriod)
    #expect(failed.renewalInfo?.gracePeriodExpiresDate == .day(47))
    #expect(failed.renewalInfo?.isInBillingRetryPeriod == true)
    #expect(failed.transaction.expiresDate == .day(31))
    #expect(store.status(of: id, at: .day(47) - Date.millisecond) == .billingGracePeriod)
    #expect(store.truth(of: id, at: .day(47) - Date.millisecond)?.grantsAccess == true)
    #expect(store.status(of: id, at: .day(47)) == .billingRetry)
    #expect(store.truth(of: id, at: .day(47))?.grantsAccess == false)

    #expect(throws: StoreRefusal.billingGraceRuns(until: .day(47))) {
      try store.perform(.endGrace, on: id, at: .day(47) - Date.millisecond)
    }
    let ended = try store.perform(.endGrace, on: id, at: .day(47))
    #expect(ended.notification.type == .gracePeriodExpired)
    #expect(ended.notification.status == .billingRetry)
    #expect(ended.renewalInfo?.gracePeriodExpiresDate == nil)
    #expect(ended.renewalInfo?.isInBillingRetryPeriod == true)
  }

  @Test func `a recovery within billing grace leaves no gap in the paid time`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    _ = try store.perform(.failToRenew(grace: true), on: id, at: .day(31))
    let recovered = try store.perform(.recover, on: id, at: .day(40))
    #expect(recovered.notification.type == .didRenew)
    #expect(recovered.notification.subtype == .billingRecovery)
    #expect(recovered.transaction.purchaseDate == .day(31))
    #expect(recovered.transaction.expiresDate == .day(59))
    #expect(recovered.renewalInfo?.isInBillingRetryPeriod == false)
    #expect(recovered.renewalInfo?.gracePeriodExpiresDate == nil)
    #expect(recovered.renewalInfo?.expirationIntent == nil)
  }

  @Test func `a recovery from billing retry begins a period at the payment`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let failed = try store.perform(.failToRenew(grace: false), on: id, at: .day(31))
    #expect(failed.notification.subtype == nil)
    #expect(failed.notification.status == .billingRetry)
    #expect(failed.renewalInfo?.gracePeriodExpiresDate == nil)
    #expect(throws: StoreRefusal.inBillingRetry) {
      try store.perform(.failToRenew(grace: true), on: id, at: .day(32))
    }
    let recovered = try store.perform(.recover, on: id, at: .day(41))
    #expect(recovered.transaction.purchaseDate == .day(41))
    #expect(recovered.transaction.expiresDate == .day(69))  // 11 February to 11 March.
  }

  @Test func `a failed charge in an app without billing grace starts billing retry`() throws {
    var app = Climb.app
    app.billingGrace = nil
    var store = Climb.store(app: app)
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let failed = try store.perform(.failToRenew(grace: nil), on: id, at: .day(31))
    #expect(failed.notification.subtype == nil)
    #expect(failed.notification.status == .billingRetry)
  }

  @Test(arguments: [
    (ExpirationIntent.customerCancelled, Subtype.voluntary),
    (.customerDidNotConsentToPriceIncrease, .priceIncrease), (.productNotAvailable, .productNotForSale),
  ])
  func `EXPIRED has the subtype of its reason`(intent: ExpirationIntent, subtype: Subtype) throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.paidTimeRuns(until: .day(31))) {
      try store.perform(.expire(intent), on: id, at: .day(31) - Date.millisecond)
    }
    let ended = try store.perform(.expire(intent), on: id, at: .day(31))
    #expect(ended.notification.type == .expired)
    #expect(ended.notification.subtype == subtype)
    #expect(ended.notification.status == .expired)
    #expect(ended.renewalInfo?.expirationIntent == intent)
    #expect(ended.renewalInfo?.autoRenewStatus == .off)
    #expect(throws: StoreRefusal.ended) { try store.perform(.renew, on: id, at: .day(32)) }
  }

  @Test func `billing retry can end in an expiry`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.notInBillingRetry) {
      try store.perform(.expire(.billingError), on: id, at: .day(31))
    }
    _ = try store.perform(.failToRenew(grace: false), on: id, at: .day(31))
    let ended = try store.perform(.expire(nil), on: id, at: .day(91))
    #expect(ended.notification.subtype == .billingRetry)
    #expect(ended.renewalInfo?.expirationIntent == .billingError)
    #expect(ended.renewalInfo?.isInBillingRetryPeriod == false)
  }

  @Test func `an extension moves the end of the period and sends RENEWAL_EXTENDED`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let extended = try store.perform(.extend(days: 10), on: bought.originalTransactionID, at: .day(5))
    #expect(extended.notification.type == .renewalExtended)
    #expect(extended.transaction.transactionId == bought.transaction.transactionId)
    #expect(extended.transaction.expiresDate == .day(41))
    #expect(store.status(of: bought.originalTransactionID, at: .day(40)) == .active)
  }

  @Test func `billing retry ends by itself after sixty days`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    _ = try store.perform(.failToRenew(grace: true), on: id, at: .day(31))
    #expect(store.status(of: id, at: .day(91) - Date.millisecond) == .billingRetry)
    #expect(store.status(of: id, at: .day(91)) == .expired)
    #expect(throws: StoreRefusal.ended) { try store.perform(.recover, on: id, at: .day(91)) }
  }

  @Test func `a subscription with renewal off is not charged`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    _ = try store.perform(.failToRenew(grace: false), on: id, at: .day(31))
    _ = try store.perform(.setAutoRenew(false), on: id, at: .day(32))
    #expect(throws: StoreRefusal.renewalIsOff) { try store.perform(.recover, on: id, at: .day(33)) }
  }

  @Test func `only an active subscription can be extended`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.notActive) { try store.perform(.extend(days: 5), on: id, at: .day(31)) }
    _ = try store.perform(.failToRenew(grace: true), on: id, at: .day(30.5))
    #expect(throws: StoreRefusal.inBillingRetry) {
      try store.perform(.extend(days: 5), on: id, at: .day(30.6))
    }
  }

  @Test func `a downgrade that is charged ahead keeps the higher product until its period begins`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.family, at: Climb.start).originalTransactionID
    _ = try store.perform(.changeProduct(Climb.monthly), on: id, at: .day(1))
    let renewed = try store.perform(.renew, on: id, at: .day(30.5))
    #expect(renewed.transaction.purchaseDate == .day(31))
    let before = store.truth(of: id, at: .day(31) - Date.millisecond)
    #expect(before?.productID == Climb.monthly)
    #expect(before?.entitledProductID == Climb.family)
    #expect(store.truth(of: id, at: .day(31))?.entitledProductID == Climb.monthly)
  }
}

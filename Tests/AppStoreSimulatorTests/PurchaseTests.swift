import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct PurchaseTests {
  @Test func `a first purchase has every field that Apple signs`() throws {
    var store = Climb.store()
    let token = UUID()
    let outcome = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, appAccountToken: token),
      at: Climb.start)

    let transaction = outcome.transaction
    #expect(transaction.transactionId == transaction.originalTransactionId)
    #expect(transaction.transactionId.utf8.allSatisfy { (0x30...0x39).contains($0) })
    #expect(transaction.webOrderLineItemId != nil)
    #expect(transaction.bundleId == Climb.bundleID)
    #expect(transaction.productId == Climb.monthly)
    #expect(transaction.subscriptionGroupIdentifier == "20000001")
    #expect(transaction.purchaseDate == Climb.start)
    #expect(transaction.originalPurchaseDate == Climb.start)
    #expect(transaction.expiresDate == .day(31))
    #expect(transaction.signedDate == Climb.start)
    #expect(transaction.quantity == 1)
    #expect(transaction.type == .autoRenewableSubscription)
    #expect(transaction.appAccountToken == token)
    #expect(transaction.inAppOwnershipType == .purchased)
    #expect(transaction.environment == .production)
    #expect(transaction.storefront == "USA")
    #expect(transaction.storefrontId == "143441")
    #expect(transaction.transactionReason == .purchase)
    #expect(transaction.price == 4990)
    #expect(transaction.currency == "USD")
    #expect(transaction.appTransactionId != nil)
    #expect(transaction.offerType == nil)
    #expect(transaction.revocationDate == nil)

    let renewal = try #require(outcome.renewalInfo)
    #expect(renewal.originalTransactionId == transaction.originalTransactionId)
    #expect(renewal.autoRenewProductId == Climb.monthly)
    #expect(renewal.productId == Climb.monthly)
    #expect(renewal.autoRenewStatus == .on)
    #expect(renewal.isInBillingRetryPeriod == false)
    #expect(renewal.renewalDate == .day(31))
    #expect(renewal.renewalPrice == 4990)
    #expect(renewal.recentSubscriptionStartDate == Climb.start)
    #expect(renewal.appAccountToken == token)
    #expect(renewal.expirationIntent == nil)

    let notification = outcome.notification
    #expect(notification.type == .subscribed)
    #expect(notification.subtype == .initialBuy)
    #expect(notification.status == .active)
    #expect(notification.transaction == transaction)
    #expect(notification.renewalInfo == renewal)
    #expect(notification.appAppleID == 1_500_000_001)
    #expect(store.notifications == [notification])
  }

  @Test func `a free trial has price 0, lasts as long as the offer and renews at the full price`() throws {
    var store = Climb.store()
    let outcome = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly, offer: .freeTrial()),
      at: Climb.start)
    #expect(outcome.transaction.price == 0)
    #expect(outcome.transaction.offerType == .introductoryOffer)
    #expect(outcome.transaction.offerDiscountType == .freeTrial)
    #expect(outcome.transaction.offerPeriod == "P1W")
    #expect(outcome.transaction.expiresDate == .day(7))

    let paid = try store.perform(.renew, on: outcome.originalTransactionID, at: .day(7))
    #expect(paid.transaction.price == 4990)
    #expect(paid.transaction.offerType == nil)
    #expect(paid.transaction.purchaseDate == .day(7))
  }

  @Test func `a lifetime purchase is charged once and never expires`() throws {
    var store = Climb.store()
    let outcome = try store.buy(Climb.lifetime, account: "ann", at: Climb.start)
    #expect(outcome.notification.type == .oneTimeCharge)
    #expect(outcome.notification.subtype == nil)
    #expect(outcome.notification.status == nil)
    #expect(outcome.transaction.expiresDate == nil)
    #expect(outcome.transaction.webOrderLineItemId == nil)
    #expect(outcome.transaction.type == .nonConsumable)
    #expect(outcome.renewalInfo == nil)
    #expect(store.status(of: outcome.originalTransactionID, at: .day(10_000)) == .active)
    #expect(throws: StoreRefusal.alreadyOwned(transactionID: outcome.originalTransactionID)) {
      try store.buy(Climb.lifetime, account: "ann", at: .day(1))
    }
    #expect(throws: StoreRefusal.notASubscription(outcome.originalTransactionID)) {
      try store.perform(.renew, on: outcome.originalTransactionID, at: .day(1))
    }
  }

  @Test func `a consumable can be bought again and again`() throws {
    var store = Climb.store()
    let first = try store.buy(Climb.coins, account: "ann", at: Climb.start)
    let second = try store.buy(Climb.coins, account: "ann", at: Climb.start)
    #expect(first.originalTransactionID != second.originalTransactionID)
    #expect(first.transaction.appTransactionId == second.transaction.appTransactionId)
  }

  @Test func `a customer has one subscription per group and resubscribes under its original id`() throws {
    var store = Climb.store()
    let first = try store.buy(Climb.monthly, account: "ann", at: Climb.start)
    #expect(throws: StoreRefusal.alreadySubscribed(originalTransactionID: first.originalTransactionID)) {
      try store.buy(Climb.annual, account: "ann", at: .day(1))
    }
    _ = try store.perform(.setAutoRenew(false), on: first.originalTransactionID, at: .day(2))
    _ = try store.perform(.expire(nil), on: first.originalTransactionID, at: .day(31))

    let again = try store.buy(Climb.annual, account: "ann", at: .day(40))
    #expect(again.originalTransactionID == first.originalTransactionID)
    #expect(again.transaction.transactionId != first.transaction.transactionId)
    #expect(again.notification.type == .subscribed)
    #expect(again.notification.subtype == .resubscribe)
    #expect(again.transaction.originalPurchaseDate == Climb.start)
    #expect(again.transaction.transactionReason == .purchase)
    #expect(again.renewalInfo?.autoRenewStatus == .on)
    #expect(again.renewalInfo?.recentSubscriptionStartDate == Climb.start)
    #expect(again.renewalInfo?.expirationIntent == nil)
    #expect(store.status(of: first.originalTransactionID, at: .day(40)) == .active)
  }

  @Test func `a gap of more than sixty days resets recentSubscriptionStartDate`() throws {
    var store = Climb.store()
    let first = try store.buy(Climb.monthly, account: "ann", at: Climb.start)
    _ = try store.perform(.expire(nil), on: first.originalTransactionID, at: .day(31))
    let again = try store.buy(Climb.monthly, account: "ann", at: .day(31 + 61))
    #expect(again.renewalInfo?.recentSubscriptionStartDate == .day(92))
  }

  @Test func `a family member's purchase has its own ids and no token`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.family, at: Climb.start)
    let shared = try store.buy(
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.family, appAccountToken: UUID(),
        ownership: .familyShared), at: .day(1))
    #expect(shared.originalTransactionID != bought.originalTransactionID)
    #expect(shared.transaction.appTransactionId != bought.transaction.appTransactionId)
    #expect(shared.transaction.inAppOwnershipType == .familyShared)
    #expect(shared.transaction.appAccountToken == nil)
    #expect(throws: StoreRefusal.notFamilyShareable(Climb.monthly)) {
      try store.buy(
        PurchaseRequest(
          bundleID: Climb.bundleID, productID: Climb.monthly, ownership: .familyShared), at: .day(1))
    }
  }

  @Test func `an account's app transaction does not change`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, account: "ann", at: .day(3))
    let first = try store.appTransaction(of: Climb.bundleID, accountID: "ann", at: .day(4))
    let second = try store.appTransaction(of: Climb.bundleID, accountID: "ann", at: .day(9))
    let other = try store.appTransaction(
      of: Climb.bundleID, accountID: "ben", originalPurchaseDate: .day(-100), at: .day(9))
    #expect(first.appTransactionId == bought.transaction.appTransactionId)
    #expect(second.appTransactionId == first.appTransactionId)
    #expect(first.originalPurchaseDate == .day(3))
    #expect(first.receiptCreationDate == .day(4))
    #expect(first.appAppleId == 1_500_000_001)
    #expect(other.appTransactionId != first.appTransactionId)
    #expect(other.originalPurchaseDate == .day(-100))
    #expect(other.originalApplicationVersion == "1.0")
  }

  @Test func `a purchase has the id that the request names, once`() throws {
    var store = Climb.store()
    let request = PurchaseRequest(
      bundleID: Climb.bundleID, productID: Climb.monthly, transactionID: "2000000123456789")
    let bought = try store.buy(request, at: Climb.start)
    #expect(bought.transaction.transactionId == "2000000123456789")
    #expect(bought.originalTransactionID == "2000000123456789")
    #expect(throws: StoreRefusal.takenTransactionID("2000000123456789")) {
      try store.buy(request, at: .day(1))
    }
  }

  @Test func `the store refuses a purchase of a product that is not on sale`() {
    var store = Climb.store()
    #expect(throws: StoreRefusal.unknownProduct("nothing")) { try store.buy("nothing", at: Climb.start) }
    #expect(throws: StoreRefusal.unknownApp("com.example.other")) {
      try store.buy(PurchaseRequest(bundleID: "com.example.other", productID: "x"), at: Climb.start)
    }
    #expect(store.notifications.isEmpty)
  }
}

import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct FamilyTests {
  /// A purchaser of the family product and a member who got it on day 2.
  private static func family() throws -> (store: SimulatedStore, purchaser: String, member: String) {
    var store = Climb.store()
    let bought = try store.buy(
      PurchaseRequest(
        bundleID: Climb.bundleID, productID: Climb.family, accountID: "ann", appAccountToken: UUID()),
      at: Climb.start)
    let shared = try store.perform(
      .share(accountID: "ben"), on: bought.originalTransactionID, at: .day(2))
    return (store, bought.originalTransactionID, shared.originalTransactionID)
  }

  @Test func `a family member gets a purchase without a token and with the purchaser's expiry`()
    throws
  {
    let (store, purchaser, member) = try Self.family()
    let shared = try #require(store.notifications.last)
    #expect(member != purchaser)
    #expect(shared.type == .subscribed)
    #expect(shared.subtype == .initialBuy)
    #expect(shared.transaction?.inAppOwnershipType == .familyShared)
    #expect(shared.transaction?.appAccountToken == nil)
    #expect(shared.transaction?.purchaseDate == .day(2))
    #expect(shared.transaction?.expiresDate == .day(31))
    #expect(store.truth(of: member, at: .day(30))?.ownership == .familyShared)
    #expect(store.status(of: member, at: .day(31)) == .expired)
  }

  @Test func `renewals, failures, recoveries and expiries apply to the family members`() throws {
    var (store, purchaser, member) = try Self.family()
    let renewed = try store.perform(.renew, on: purchaser, at: .day(31))
    #expect(renewed.others.map(\.type) == [.didRenew])
    #expect(renewed.others[0].transaction?.originalTransactionId == member)
    #expect(renewed.others[0].transaction?.transactionId != renewed.transaction.transactionId)
    #expect(renewed.others[0].transaction?.expiresDate == renewed.transaction.expiresDate)
    #expect(store.status(of: member, at: .day(32)) == .active)

    let failed = try store.perform(.failToRenew(grace: true), on: purchaser, at: .day(59))
    #expect(failed.others.map(\.subtype) == [.gracePeriod])
    #expect(store.status(of: member, at: .day(60)) == .billingGracePeriod)
    let recovered = try store.perform(.recover, on: purchaser, at: .day(60))
    #expect(recovered.others.map(\.subtype) == [.billingRecovery])
    let off = try store.perform(.setAutoRenew(false), on: purchaser, at: .day(61))
    #expect(off.others.map(\.subtype) == [.autoRenewDisabled])
    let ended = try store.perform(.expire(nil), on: purchaser, at: .day(90))
    #expect(ended.others.map(\.type) == [.expired])
    #expect(store.status(of: member, at: .day(90)) == .expired)

    let again = try store.buy(Climb.family, account: "ann", at: .day(95))
    #expect(again.others.map(\.subtype) == [.resubscribe])
    #expect(store.status(of: member, at: .day(96)) == .active)
  }

  @Test func `a refund to the purchaser revokes the family members' purchases`() throws {
    var (store, purchaser, member) = try Self.family()
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: purchaser,
      at: .day(5))
    #expect(refunded.others.map(\.type) == [.didChangeRenewalStatus, .revoke])
    #expect(refunded.others[1].transaction?.revocationType == .familyRevoke)
    #expect(store.status(of: member, at: .day(5)) == .revoked)
    #expect(throws: StoreRefusal.notRefunded) {
      try store.perform(.reverseRefund(transactionID: nil), on: member, at: .day(6))
    }

    _ = try store.perform(.reverseRefund(transactionID: nil), on: purchaser, at: .day(6))
    #expect(store.status(of: member, at: .day(6)) == .revoked)
    let again = try store.perform(.share(accountID: "ben"), on: purchaser, at: .day(7))
    #expect(again.originalTransactionID == member)
    #expect(again.notification.subtype == .resubscribe)
    #expect(store.status(of: member, at: .day(7)) == .active)
  }

  @Test func `a revoked family member loses access, and the purchaser and the other members keep it`() throws
  {
    var (store, purchaser, member) = try Self.family()
    let other = try store.perform(.share(accountID: nil), on: purchaser, at: .day(3)).originalTransactionID
    _ = try store.perform(.revoke, on: member, at: .day(4))
    #expect(store.status(of: member, at: .day(4)) == .revoked)
    #expect(store.status(of: other, at: .day(4)) == .active)
    #expect(store.status(of: purchaser, at: .day(4)) == .active)
    let renewed = try store.perform(.renew, on: purchaser, at: .day(31))
    #expect(renewed.others.map { $0.transaction?.originalTransactionId } == [other])
  }

  @Test func `a change to a product that cannot be shared revokes the family members' purchases`() throws {
    var (store, purchaser, member) = try Self.family()
    _ = try store.perform(.changeProduct(Climb.monthly), on: purchaser, at: .day(5))
    #expect(store.status(of: member, at: .day(5)) == .active)
    let renewed = try store.perform(.renew, on: purchaser, at: .day(31))
    #expect(renewed.transaction.productId == Climb.monthly)
    #expect(renewed.others.map(\.type) == [.revoke])
    #expect(store.status(of: member, at: .day(31)) == .revoked)
  }

  @Test func `a family member's purchase accepts only the command revoke`() throws {
    var (store, purchaser, member) = try Self.family()
    for command in [SubscriptionCommand.renew, .setAutoRenew(false), .extend(days: 3), .failToExtend] {
      #expect(throws: StoreRefusal.followsPurchaser(originalTransactionID: purchaser)) {
        try store.perform(command, on: member, at: .day(5))
      }
    }
  }

  @Test func `only shareable products can be shared, and not with the purchaser`() throws {
    var (store, purchaser, _) = try Self.family()
    #expect(throws: StoreRefusal.alreadyOwned(transactionID: purchaser)) {
      try store.perform(.share(accountID: "ann"), on: purchaser, at: .day(3))
    }
    #expect(throws: StoreRefusal.notActive) {
      try store.perform(.share(accountID: nil), on: purchaser, at: .day(31))
    }
    let single = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    #expect(throws: StoreRefusal.notFamilyShareable(Climb.monthly)) {
      try store.perform(.share(accountID: nil), on: single, at: .day(3))
    }
  }

  @Test func `a lifetime purchase is shared with ONE_TIME_CHARGE and revoked by a refund`() throws {
    var app = Climb.app
    app.products[Climb.lifetime]?.isFamilyShareable = true
    var store = Climb.store(app: app)
    let bought = try store.buy(Climb.lifetime, account: "ann", at: Climb.start).originalTransactionID
    let shared = try store.perform(.share(accountID: "ben"), on: bought, at: .day(1))
    #expect(shared.notification.type == .oneTimeCharge)
    #expect(shared.transaction.inAppOwnershipType == .familyShared)
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: bought, at: .day(2))
    #expect(refunded.others.map(\.type) == [.revoke])
    #expect(store.status(of: shared.originalTransactionID, at: .day(2)) == .revoked)
  }
}

import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct RefundTests {
  @Test func `a refund of the current period ends access, and its reversal restores it`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedDueToIssue), on: id, at: .day(3))
    #expect(refunded.notification.type == .refund)
    #expect(refunded.notification.status == .revoked)
    #expect(refunded.transaction.revocationDate == .day(3))
    #expect(refunded.transaction.revocationReason == .refundedDueToIssue)
    #expect(refunded.transaction.revocationType == .refundFull)
    #expect(refunded.transaction.revocationPercentage == 100_000)
    #expect(refunded.renewalInfo?.autoRenewStatus == .off)
    #expect(store.status(of: id, at: .day(3)) == .revoked)
    #expect(throws: StoreRefusal.revoked) { try store.perform(.renew, on: id, at: .day(4)) }
    #expect(throws: StoreRefusal.alreadyRefunded) {
      try store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedDueToIssue), on: id, at: .day(4))
    }

    let reversed = try store.perform(.reverseRefund(transactionID: nil), on: id, at: .day(5))
    #expect(reversed.notification.type == .refundReversed)
    #expect(reversed.notification.status == .active)
    #expect(reversed.transaction.revocationDate == nil)
    #expect(reversed.transaction.revocationType == nil)
    #expect(store.status(of: id, at: .day(5)) == .active)
    #expect(throws: StoreRefusal.notRefunded) {
      try store.perform(.reverseRefund(transactionID: nil), on: id, at: .day(6))
    }
  }

  @Test func `a refund of an older period keeps access`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let renewed = try store.perform(.renew, on: id, at: .day(31))
    let refunded = try store.perform(
      .refund(
        transactionID: bought.transaction.transactionId, percentage: 40, reason: .refundedForOtherReason),
      on: id, at: .day(33))
    #expect(refunded.transaction.transactionId == bought.transaction.transactionId)
    #expect(refunded.transaction.revocationType == .refundProrated)
    #expect(refunded.transaction.revocationPercentage == 40_000)
    #expect(refunded.notification.status == .active)
    #expect(refunded.renewalInfo?.autoRenewStatus == .on)
    let truth = store.truth(of: id, at: .day(33))
    #expect(truth?.status == .active)
    #expect(truth?.transactionID == renewed.transaction.transactionId)
  }

  @Test func `a refunded lifetime purchase can be bought again`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.lifetime, account: "ann", at: Climb.start)
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
      on: bought.originalTransactionID, at: .day(1))
    #expect(refunded.notification.status == nil)
    #expect(store.status(of: bought.originalTransactionID, at: .day(1)) == .revoked)
    let again = try store.buy(Climb.lifetime, account: "ann", at: .day(2))
    #expect(again.originalTransactionID != bought.originalTransactionID)
  }

  @Test func `a refund under one purchase refuses a transaction of another purchase`() throws {
    var store = Climb.store()
    let mine = try store.buy(Climb.monthly, at: Climb.start)
    let other = try store.buy(Climb.monthly, at: Climb.start)
    #expect(throws: StoreRefusal.unknownTransaction(other.transaction.transactionId)) {
      try store.perform(
        .refund(
          transactionID: other.transaction.transactionId, percentage: 100,
          reason: .refundedForOtherReason), on: mine.originalTransactionID, at: .day(1))
    }
  }

  @Test func `a declined refund and a consumption request change nothing`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, at: Climb.start)
    let id = bought.originalTransactionID
    let asked = try store.perform(
      .requestConsumption(transactionID: nil, reason: .unintendedPurchase), on: id, at: .day(1))
    #expect(asked.notification.type == .consumptionRequest)
    #expect(asked.notification.consumptionRequestReason == .unintendedPurchase)
    let asApple = try store.perform(
      .requestConsumption(transactionID: nil, reason: .unintendedPurchase), on: id, at: .day(1))
    #expect(asApple.notification.uuid != asked.notification.uuid)
    let declined = try store.perform(.declineRefund(transactionID: nil), on: id, at: .day(2))
    #expect(declined.notification.type == .refundDeclined)
    var expected = bought.transaction
    expected.signedDate = .day(2)
    #expect(declined.transaction == expected)
    #expect(store.status(of: id, at: .day(2)) == .active)
  }

  @Test func `a revoked family member loses access, and the purchaser keeps it`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.family, at: Climb.start)
    let shared = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.family, ownership: .familyShared),
      at: .day(1))
    #expect(throws: StoreRefusal.notFamilyShared) {
      try store.perform(.revoke, on: bought.originalTransactionID, at: .day(2))
    }
    let revoked = try store.perform(.revoke, on: shared.originalTransactionID, at: .day(2))
    #expect(revoked.notification.type == .revoke)
    #expect(revoked.transaction.revocationType == .familyRevoke)
    #expect(revoked.transaction.revocationDate == .day(2))
    #expect(store.status(of: shared.originalTransactionID, at: .day(2)) == .revoked)
    #expect(store.status(of: bought.originalTransactionID, at: .day(2)) == .active)
  }

  @Test func `a refund of the current period turns renewal off with a notification`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    let refunded = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: id, at: .day(3))
    #expect(refunded.others.map(\.type) == [.didChangeRenewalStatus])
    #expect(refunded.others.map(\.subtype) == [.autoRenewDisabled])
    #expect(refunded.others[0].transaction?.revocationDate == .day(3))
    #expect(refunded.others[0].status == .revoked)
  }

  @Test func `a refund of an upgrade ends access, because the replaced transaction stays upgraded`() throws {
    var store = Climb.store()
    let id = try store.buy(Climb.monthly, at: Climb.start).originalTransactionID
    _ = try store.perform(.changeProduct(Climb.family), on: id, at: .day(3))
    _ = try store.perform(
      .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason), on: id, at: .day(4))
    #expect(store.status(of: id, at: .day(4)) == .revoked)
    #expect(store.truth(of: id, at: .day(4))?.grantsAccess == false)
  }

  @Test func `a subscription bought again after a refund keeps its original id`() throws {
    var store = Climb.store()
    let bought = try store.buy(Climb.monthly, account: "ann", at: Climb.start)
    let id = bought.originalTransactionID
    _ = try store.perform(
      .refund(transactionID: nil, percentage: 30, reason: .refundedForOtherReason), on: id, at: .day(3))
    let again = try store.buy(Climb.monthly, account: "ann", at: .day(3))
    #expect(again.originalTransactionID == id)
    #expect(again.notification.subtype == .resubscribe)
    #expect(store.status(of: id, at: .day(3)) == .active)
    #expect(store.truth(of: id, at: .day(3))?.autoRenews == true)
  }
}

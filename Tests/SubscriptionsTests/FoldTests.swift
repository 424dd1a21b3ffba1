import Foundation
import Testing

@testable import Subscriptions

@Suite struct FoldTests {
  @Test func `a paid period is active until its last instant`() {
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30)])
    #expect(facts.words(at: 0) == "active/active")
    #expect(facts.words(at: 30 - 0.000_001) == "active/active")
    #expect(facts.words(at: 30) == "expired/expired")
  }

  @Test func `billing grace gives access until its last instant, and billing retry after it gives none`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 30)], renewalInfo(signed: 30, retry: true, graceUntil: 46))
    #expect(facts.words(at: 30) == "billingGrace/grace")
    #expect(facts.words(at: 46 - 0.000_001) == "billingGrace/grace")
    #expect(facts.words(at: 46) == "billingRetry/expired")
    #expect(facts.words(at: 90) == "expired/expired")
  }

  @Test func `billing retry without grace gives no access`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 30)], renewalInfo(signed: 30, retry: true))
    #expect(facts.words(at: 31) == "billingRetry/expired")
  }

  @Test func `the app's own grace begins at the end of the paid time`() {
    let app = sampleApp(ownGraceDays: 7)
    let ended = SubscriptionFacts([period("1000", from: 0, to: 30)])
    #expect(ended.words(at: 30, app: app) == "expired/grace")
    #expect(ended.words(at: 37, app: app) == "expired/expired")

    let retried = SubscriptionFacts(
      [period("1000", from: 0, to: 30)], renewalInfo(signed: 30, retry: true, graceUntil: 33))
    #expect(retried.words(at: 32, app: app) == "billingGrace/grace")
    #expect(retried.words(at: 34, app: app) == "billingRetry/grace")
    #expect(retried.words(at: 37, app: app) == "billingRetry/expired")
  }

  @Test func `a renewal info from before a recovery does not apply to the recovered period`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 30), period("1001", from: 35, to: 65)],
      renewalInfo(signed: 30, autoRenew: false, retry: true, graceUntil: 46))
    #expect(facts.words(at: 40) == "active/active")
    #expect(facts.words(at: 66) == "expired/expired")
    #expect(facts.subscription(under: sampleApp())?.autoRenewEnabled == true)
  }

  @Test func `the grace of a failed charge does not apply to the recovered period`() {
    // A weekly period recovered on the third day of its grace; only the transaction has arrived.
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 7), period("1001", from: 7, to: 14, signed: 10)],
      renewalInfo(signed: 8, retry: true, graceUntil: 23, renewalDate: 7))
    #expect(facts.words(at: 13) == "active/active")
    #expect(facts.words(at: 14) == "expired/expired")
    #expect(facts.subscription(under: sampleApp())?.graceExpiresDate == nil)
  }

  @Test func `the grace of a failed charge does not apply to an upgrade in the same millisecond`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 7), period("1001", from: 6.5, to: 13.5, product: "family")],
      renewalInfo(signed: 6.5, retry: true, graceUntil: 23, renewalDate: 7))
    #expect(facts.words(at: 13.5) == "expired/expired")
  }

  @Test
  func `a renewal info from before an upgrade does not apply to it, although both periods end together`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 30), period("1001", from: 23, to: 30, product: "family")],
      renewalInfo(signed: 5, autoRenew: false, renewalDate: 30))
    #expect(facts.subscription(under: sampleApp())?.autoRenewEnabled == true)
  }

  @Test func `a renewal info from before an extension applies to the extended period`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 40, signed: 5)],
      renewalInfo(signed: 3, autoRenew: false, renewalDate: 30))
    #expect(facts.subscription(under: sampleApp())?.autoRenewEnabled == false)
  }

  @Test func `a renewal info signed with an early renewal applies to the renewed period`() {
    let facts = SubscriptionFacts(
      [period("1000", from: 0, to: 30), period("1001", from: 30, to: 60, signed: 29.5)],
      renewalInfo(signed: 29.5, autoRenew: false, renewalDate: 60))
    #expect(facts.subscription(under: sampleApp())?.autoRenewEnabled == false)
  }

  @Test func `a refund of an old period keeps access, and one of the current period ends it`() {
    let old = period("1000", from: 0, to: 30, revoked: 40, signed: 40)
    let current = period("1001", from: 30, to: 60)
    #expect(SubscriptionFacts([old, current]).words(at: 41) == "active/active")

    let refunded = period("1001", from: 30, to: 60, revoked: 40, signed: 40)
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30), refunded])
    #expect(facts.words(at: 41) == "revoked/cancelled")
    #expect(facts.subscription(under: sampleApp())?.willRenew(at: day(41)) == false)
  }

  @Test func `a reversed refund restores the access`() {
    var facts = SubscriptionFacts([period("1000", from: 0, to: 30, revoked: 5, signed: 5)])
    #expect(facts.words(at: 6) == "revoked/cancelled")
    facts.add(period("1000", from: 0, to: 30, signed: 7))
    #expect(facts.words(at: 8) == "active/active")
  }

  @Test func `a transaction from before its refund changes nothing when it arrives late`() {
    var facts = SubscriptionFacts([period("1000", from: 0, to: 30, revoked: 5, signed: 5)])
    let isNews = facts.add(period("1000", from: 0, to: 30, signed: 0))
    #expect(!isNews)
    #expect(facts.words(at: 6) == "revoked/cancelled")
  }

  @Test func `a refunded upgrade does not restore the replaced purchase`() {
    let facts = SubscriptionFacts([
      period("1000", from: 0, to: 30, upgraded: true, signed: 10),
      period("1001", from: 10, to: 40, product: "family", revoked: 12, signed: 12),
    ])
    #expect(facts.words(at: 13) == "revoked/cancelled")
  }

  @Test func `an upgrade bought at the same instant counts, and the upgraded purchase does not`() {
    let facts = SubscriptionFacts([
      period("1001", from: 0, to: 30, upgraded: true), period("1000", from: 0, to: 30, product: "family"),
    ])
    #expect(facts.subscription(under: sampleApp())?.tier == "family")
  }

  /// Apple gives a period another transaction id when the customer restores it on a new device.
  @Test func `a refund ends a period whatever copy of it is known, and its reversal opens it again`() throws {
    let bought = period("1001", from: 0, to: 30)
    let copy = period("1002", from: 0, to: 30, signed: 2)
    let refunded = period("1001", from: 0, to: 30, revoked: 5, signed: 5)
    for facts in ordersWithRepeats([bought, copy, refunded]) {
      #expect(SubscriptionFacts(facts).words(at: 6) == "revoked/cancelled")
    }
    // A copy that was signed before the refund changes nothing, whenever it comes.
    #expect(SubscriptionFacts([refunded, copy]).words(at: 6) == "revoked/cancelled")
    let reversed = period("1001", from: 0, to: 30, signed: 7)
    for facts in ordersWithRepeats([copy, refunded, reversed]) {
      #expect(SubscriptionFacts(facts).words(at: 8) == "active/active")
    }
    // So does a copy that the App Store signs after the refund as it was.
    let signedAgain = period("1002", from: 0, to: 30, signed: 6)
    for facts in ordersWithRepeats([refunded, signedAgain]) {
      #expect(SubscriptionFacts(facts).words(at: 6) == "revoked/cancelled")
    }
    // Another period, or another product at the same instant, is not a copy.
    #expect(SubscriptionFacts([refunded, period("1003", from: 30, to: 60)]).words(at: 31) == "active/active")
    let upgrade = period("1002", from: 0, to: 30, product: "family")
    #expect(SubscriptionFacts([refunded, upgrade]).words(at: 6) == "active/active")
  }

  @Test func `a reversed refund ends the revocations of all copies up to it`() {
    let refunded = period("1001", from: 0, to: 30, revoked: 5, signed: 5)
    let copy = period("1002", from: 0, to: 30, revoked: 5, signed: 6)
    let reversed = period("1001", from: 0, to: 30, signed: 7)
    for facts in ordersWithRepeats([refunded, copy, reversed]) {
      #expect(SubscriptionFacts(facts).words(at: 8) == "active/active")
    }
    // The notification of the reversal tells that there was a refund.
    var told = reversed
    told.latestRevocation = told.signedAt
    for facts in ordersWithRepeats([copy, told]) {
      #expect(SubscriptionFacts(facts).words(at: 8) == "active/active")
    }
    // A refund after the reversal counts.
    let again = period("1002", from: 0, to: 30, revoked: 9, signed: 9)
    for facts in ordersWithRepeats([refunded, reversed, again]) {
      #expect(SubscriptionFacts(facts).words(at: 10) == "revoked/cancelled")
    }
    // Also when the App Store signs the reversed copy again after it.
    var toldAgain = period("1001", from: 0, to: 30, signed: 12)
    for facts in ordersWithRepeats([refunded, reversed, again, toldAgain]) {
      #expect(SubscriptionFacts(facts).words(at: 13) == "revoked/cancelled")
    }
    for facts in ordersWithRepeats([told, again, toldAgain]) {
      #expect(SubscriptionFacts(facts).words(at: 13) == "revoked/cancelled")
    }
    // Until that refund is reversed too.
    toldAgain.transactionID = "1002"
    for facts in ordersWithRepeats([refunded, reversed, again, toldAgain]) {
      #expect(SubscriptionFacts(facts).words(at: 13) == "active/active")
    }
  }

  @Test func `a reversed refund opens a restored non-consumable, whatever copy was signed as revoked`() {
    let refunded = lifetime("1000", bought: 0, revoked: 5)
    let copy = lifetime("1002", bought: 3, revoked: 5, signed: 6)
    let reversed = lifetime("1000", bought: 0, signed: 7)
    for facts in ordersWithRepeats([refunded, copy, reversed]) {
      #expect(SubscriptionFacts(facts).words(at: 8) == "active/active")
    }
    // A later refund ends it again, and a reversal of an earlier one does not change that.
    let again = lifetime("1002", bought: 3, revoked: 9)
    let signedAgain = lifetime("1000", bought: 0, signed: 12)
    for facts in ordersWithRepeats([refunded, reversed, again, signedAgain]) {
      #expect(SubscriptionFacts(facts).words(at: 13) == "revoked/cancelled")
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a thousand copies of a period are folded quickly`() {
    let facts = SubscriptionFacts((0..<1_000).map { period("\(2_000 + $0)", from: 0, to: 30) })
    for _ in 0..<20 { #expect(facts.current?.transactionID == "2999") }
  }

  @Test func `an extension lengthens a period whatever copy of it is signed`() {
    let copy = period("1002", from: 0, to: 30, signed: 2)
    let extended = period("1001", from: 0, to: 60, signed: 20)
    for facts in ordersWithRepeats([period("1001", from: 0, to: 30), copy, extended]) {
      #expect(SubscriptionFacts(facts).words(at: 59) == "active/active")
      #expect(SubscriptionFacts(facts).current?.transactionID == "1002")
    }
  }

  @Test func `the mark of an upgrade counts whatever copy of the upgraded period has it`() {
    let upgraded = period("1001", from: 0, to: 30, upgraded: true, signed: 10)
    let copy = period("1002", from: 0, to: 30, signed: 2)
    let upgrade = period("1000", from: 0, to: 90, product: "family")
    for facts in ordersWithRepeats([upgraded, copy, upgrade]) {
      #expect(SubscriptionFacts(facts).current?.transactionID == "1000")
    }
  }

  @Test func `a lifetime purchase does not expire until it is refunded`() {
    let bought = period("1000", from: 0, to: nil, product: "lifetime", kind: .nonConsumable)
    #expect(SubscriptionFacts([bought]).words(at: 100_000) == "active/active")
    #expect(SubscriptionFacts([bought]).subscription(under: sampleApp())?.autoRenewEnabled == false)
    let refunded = period(
      "1000", from: 0, to: nil, product: "lifetime", kind: .nonConsumable, revoked: 3, signed: 3)
    #expect(SubscriptionFacts([bought, refunded]).words(at: 4) == "revoked/cancelled")
  }

  @Test func `the catalog defines the length of a non-renewing subscription`() {
    let facts = SubscriptionFacts([
      period("1000", from: 0, to: nil, product: "season", kind: .nonRenewing)
    ])
    #expect(facts.words(at: 89) == "active/active")
    #expect(facts.words(at: 90) == "expired/expired")
  }

  @Test func `a restored copy of a non-renewing subscription ends and is refunded with the purchase`() {
    let bought = period("1000", from: 0, to: nil, product: "season", kind: .nonRenewing)
    var restored = period("1001", from: 95, to: nil, product: "season", kind: .nonRenewing)
    restored.originalPurchaseDate = day(0)
    for facts in [[restored], [bought, restored], [restored, bought]] {
      #expect(SubscriptionFacts(facts).words(at: 96) == "expired/expired")
    }
    var copy = period("1002", from: 0, to: nil, product: "season", kind: .nonRenewing)
    copy.originalPurchaseDate = day(0)
    let refund = period(
      "1000", from: 0, to: nil, product: "season", kind: .nonRenewing, revoked: 3, signed: 3)
    for facts in ordersWithRepeats([bought, copy, refund]) {
      #expect(SubscriptionFacts(facts).words(at: 4) == "revoked/cancelled")
    }
    // After a refund it is bought again.
    var again = period("1003", from: 30, to: nil, product: "season", kind: .nonRenewing)
    again.originalPurchaseDate = day(0)
    var restoredAgain = period("1004", from: 100, to: nil, product: "season", kind: .nonRenewing)
    restoredAgain.originalPurchaseDate = day(0)
    for facts in ordersWithRepeats([bought, refund, again]) {
      #expect(SubscriptionFacts(facts).words(at: 119) == "active/active")
      #expect(SubscriptionFacts(facts + [restoredAgain]).words(at: 121) == "expired/expired")
    }
  }

  @Test func `an alias of a product gives the product's tier`() {
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30, product: "old.monthly")])
    let subscription = facts.subscription(under: sampleApp())
    #expect(subscription?.productID == "monthly")
    #expect(subscription?.tier == "basic")
  }

  @Test func `an unknown product is kept and gives no access`() {
    let facts = SubscriptionFacts([period("1000", from: 0, to: 30, product: "unheard.of")])
    let subscription = facts.subscription(under: sampleApp())
    #expect(subscription?.productID == "unheard.of")
    #expect(subscription?.tier == nil)
  }

  @Test func `nextChange is the next instant at which the status changes`() {
    let subscription = SubscriptionFacts(
      [period("1000", from: 0, to: 30)], renewalInfo(signed: 30, retry: true, graceUntil: 46)
    ).subscription(under: sampleApp())
    #expect(subscription?.nextChange(after: day(1)) == day(30))
    #expect(subscription?.nextChange(after: day(30)) == day(46))
    #expect(subscription?.nextChange(after: day(46)) == day(90))
    #expect(subscription?.nextChange(after: day(90)) == nil)
  }
}

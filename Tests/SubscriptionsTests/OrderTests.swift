import Foundation
import Platform
import Testing

@testable import Subscriptions

/// Any permutation of the same facts, with any of them repeated, ends in the same state.
@Suite struct OrderTests {
  private enum Fact {
    case transaction(TransactionFact)
    case renewal(RenewalFact)
  }

  private static let anna = UUID()

  private static let lives = [subscriptionLife, lifetimeLife]

  /// A life with a purchase, a renewal that is signed with and without a token, a failure with grace, a recovery, an
  /// upgrade, refunds, a reversal, facts of the same millisecond that disagree, and an upgrade after the next renewal
  /// was charged.
  private static let subscriptionLife: [Fact] = [
    .transaction(period("1000", from: 0, to: 30)),
    .renewal(renewalInfo(signed: 0)),
    .transaction(period("1001", from: 30, to: 60)),
    .renewal(renewalInfo(signed: 60, retry: true, graceUntil: 76)),
    .transaction(period("1002", from: 65, to: 95)),
    .renewal(renewalInfo(signed: 65)),
    .transaction(period("1000", from: 0, to: 30, revoked: 66, signed: 66)),
    .transaction(period("1000", from: 0, to: 30, signed: 67)),
    .transaction(period("1002", from: 65, to: 95, upgraded: true, signed: 70)),
    .transaction(period("1003", from: 70, to: 100, product: "family", signed: 70)),
    .transaction(period("1003", from: 70, to: 100, product: "family", revoked: 70, signed: 70)),
    .transaction(period("1003", from: 70, to: 107, product: "family", signed: 71)),
    .renewal(renewalInfo(signed: 71, autoRenew: false)),
    .renewal(renewalInfo(signed: 71, autoRenew: true, renewsAs: "family")),
    .transaction(period("1001", from: 30, to: 60, token: anna, signed: 31)),
    .transaction(period("1001", from: 30, to: 60, signed: 33)),
    .transaction(period("1004", from: 107, to: 137, signed: 106.5)),
    .transaction(period("1005", from: 106.75, to: 136.75, product: "family", signed: 106.75)),
    .transaction(period("1004", from: 107, to: 137, upgraded: true, signed: 106.8)),
  ]

  /// A lifetime purchase, restored, refunded, bought again, refunded again, and the last refund reversed.
  private static let lifetimeLife: [Fact] = [
    .transaction(lifetime("1000", bought: 0)),
    .transaction(lifetime("1001", bought: 3)),
    .transaction(lifetime("1000", bought: 0, revoked: 5)),
    .transaction(lifetime("1002", bought: 7)),
    .transaction(lifetime("1002", bought: 7, revoked: 9)),
    .transaction(lifetime("1002", bought: 7, signed: 11)),
  ]

  private func add(_ facts: some Sequence<Fact>) -> SubscriptionFacts {
    var known = SubscriptionFacts()
    for fact in facts {
      switch fact {
      case .transaction(let transaction): known.add(transaction)
      case .renewal(let renewal): known.add(renewal)
      }
    }
    return known
  }

  @Test(arguments: lives.indices) func `any order and repetition of the same facts gives the same state`(
    index: Int
  ) {
    let life = Self.lives[index]
    let expected = add(life)
    var random = SplitMix64(state: 7)
    for _ in 0..<5_000 {
      let repeated = life + (0..<5).compactMap { _ in life.randomElement(using: &random) }
      let shuffled = add(repeated.shuffled(using: &random))
      #expect(shuffled == expected)
    }
  }

  @Test(arguments: lives.indices)
  func `adding facts to stored ones gives the same state as adding all at once`(index: Int) {
    let life = Self.lives[index]
    let expected = add(life).subscription(under: sampleApp())
    var random = SplitMix64(state: 11)
    for _ in 0..<500 {
      let shuffled = life.shuffled(using: &random)
      let split = Int.random(in: 0...shuffled.count, using: &random)
      let kept = add(shuffled[..<split])
      var resumed = SubscriptionFacts(transactions: Array(kept.transactions.values), renewal: kept.renewal)
      for fact in shuffled[split...] {
        switch fact {
        case .transaction(let transaction): resumed.add(transaction)
        case .renewal(let renewal): resumed.add(renewal)
        }
      }
      #expect(resumed.subscription(under: sampleApp()) == expected)
    }
  }

  @Test func `each sample life ends with its last purchase active and its signed token`() {
    let subscription = add(Self.subscriptionLife).subscription(under: sampleApp())
    #expect(subscription?.current.transactionID == "1005")
    #expect(subscription?.tier(at: day(110)) == "family")
    #expect(subscription?.customerToken == Self.anna)
    #expect(add(Self.lifetimeLife).words(at: 12) == "active/active")
  }

  @Test func `of two facts signed in the same millisecond the refund counts`() {
    let bought = period("1000", from: 0, to: 30, signed: 5)
    let refunded = period("1000", from: 0, to: 30, revoked: 5, signed: 5)
    #expect(SubscriptionFacts([bought, refunded]).words(at: 6) == "revoked/cancelled")
    #expect(SubscriptionFacts([refunded, bought]).words(at: 6) == "revoked/cancelled")
  }
}

import Foundation
import Platform
import Testing

@testable import Subscriptions

/// An upgrade that is bought after the next renewal was charged and before that renewal begins.
@Suite struct UpgradeAheadTests {
  private let before = period("1", from: 0, to: 30)
  private let charged = period("2", from: 30, to: 60, signed: 29.25)
  /// The charged renewal, signed again after the upgrade.
  private let replaced = period("2", from: 30, to: 60, upgraded: true, signed: 29.75)
  private let upgrade = period("3", from: 29.5, to: 59.5, product: "family", signed: 29.5)

  /// The transaction ids and tiers that the facts lead to at a day, for every order of arrival.
  private func current(_ facts: [TransactionFact], at days: Double) -> Set<String> {
    Set(
      ordersWithRepeats(facts).map { order in
        let subscription = SubscriptionFacts(order).subscription(under: sampleApp())
        let tier = subscription?.tier(at: day(days)) ?? "none"
        let status = subscription?.phase(at: day(days)).status.rawValue ?? "none"
        return "\(subscription?.current.transactionID ?? "none") \(tier) \(status)"
      })
  }

  @Test(arguments: [29.5, 29.9, 30, 45, 59.4])
  func `an upgrade stays active when the renewal charged ahead begins`(days: Double) {
    #expect(current([before, charged, upgrade, replaced], at: days) == ["3 family active"])
  }

  @Test func `an upgrade stays active even if the mark isUpgraded on the charged renewal never arrives`() {
    #expect(current([before, charged, upgrade], at: 31) == ["3 family active"])
    #expect(current([charged, upgrade], at: 31) == ["3 family active"])
  }

  @Test func `an upgrade stays active if the charged renewal is signed later without the mark isUpgraded`() {
    let signedLater = period("2", from: 30, to: 60, signed: 35)
    #expect(current([before, charged, upgrade, signedLater], at: 36) == ["3 family active"])
    #expect(current([before, upgrade, signedLater], at: 36) == ["3 family active"])
  }

  @Test func `a refund of the charged renewal keeps the upgrade active`() {
    let refunded = period("2", from: 30, to: 60, revoked: 29.6, signed: 29.6)
    #expect(current([before, charged, upgrade, refunded], at: 31) == ["3 family active"])
  }

  @Test func `the mark isUpgraded alone does not make an earlier period current`() {
    #expect(current([before, charged, replaced], at: 31) == ["2 basic active"])
    #expect(current([before, replaced, upgrade], at: 31) == ["3 family active"])
    #expect(current([replaced, upgrade], at: 31) == ["3 family active"])
  }

  @Test func `a later renewal of the upgrade is the current transaction, also before it begins`() {
    let renewal = period("4", from: 59.5, to: 89.5, product: "family", signed: 59)
    #expect(current([before, charged, upgrade, replaced, renewal], at: 60) == ["4 family active"])
    #expect(current([before, charged, upgrade, renewal], at: 59.2) == ["4 family active"])
  }

  @Test func `a downgrade after the upgrade takes effect at the end of the upgrade`() {
    let downgrade = period("4", from: 59.5, to: 89.5, signed: 59)
    for facts in [[before, charged, upgrade, downgrade], [before, upgrade, replaced, downgrade]] {
      #expect(current(facts, at: 59.4) == ["4 family active"])
      #expect(current(facts, at: 59.5) == ["4 basic active"])
    }
  }

  @Test func `a refund of the upgrade restores neither the charged renewal nor the period before`() {
    let refunded = period("3", from: 29.5, to: 59.5, product: "family", revoked: 40, signed: 40)
    #expect(current([before, charged, upgrade, replaced, refunded], at: 41) == ["3 family cancelled"])
    #expect(current([before, charged, upgrade, refunded], at: 41) == ["3 family cancelled"])
  }

  @Test func `an upgrade of the upgrade is the current transaction`() {
    let second = period("4", from: 29.8, to: 59.8, product: "lifetime", signed: 29.8)
    let first = period("3", from: 29.5, to: 59.5, product: "family", upgraded: true, signed: 29.8)
    #expect(current([charged, replaced, upgrade, first, second], at: 31) == ["4 basic active"])
  }

  @Test func `a charged renewal that was refunded and bought again is active`() {
    let refunded = period("2", from: 30, to: 60, revoked: 29.4, signed: 29.4)
    let signedLater = period("2", from: 30, to: 60, revoked: 29.4, signed: 35)
    let again = period("3", from: 29.5, to: 59.5, signed: 29.5)
    #expect(current([before, charged, refunded, again, signedLater], at: 36) == ["3 basic active"])
    #expect(current([charged, again, signedLater], at: 36) == ["3 basic active"])
  }

  @Test func `an upgrade in the first days of a period is current by its date, with or without the mark`() {
    let old = period("1", from: 0, to: 365, signed: 0)
    let next = period("2", from: 1, to: 31, product: "family", signed: 1)
    let marked = period("2", from: 1, to: 31, product: "family", upgraded: true, signed: 2)
    let last = period("3", from: 2, to: 32, product: "lifetime", signed: 2)
    #expect(current([old, next], at: 3) == ["2 family active"])
    #expect(current([old, next, marked, last], at: 3) == ["3 basic active"])
  }

  @Test func `a purchase that is signed a moment before its date is not charged ahead`() {
    let first = period("1", from: 0, to: 30)
    let second = period("2", from: 0.000_3, to: 30, product: "family", signed: 0)
    let revoked = period("2", from: 0.000_3, to: 30, product: "family", revoked: 0, signed: 1)
    #expect(current([first, second], at: 1) == ["2 family active"])
    #expect(current([first, second, revoked], at: 1) == ["2 family cancelled"])
  }

  @Test func `an upgrade at the instant at which an older period ends is the current transaction`() {
    let old = period("1", from: -30, to: 0.000_02, signed: -30)
    let bought = period("2", from: 0.000_01, to: 30, signed: 0.000_01)
    let upgraded = period("3", from: 0.000_02, to: 30, product: "family", signed: 0.000_03)
    #expect(current([old, bought, upgraded], at: 1) == ["3 family active"])
  }

  @Test
  func `an upgrade in the last seconds before a renewal that was charged ahead is the current transaction`() {
    let charged = period("2", from: 30, to: 60, signed: 29.999_8)
    let upgrade = period("3", from: 29.999_8, to: 59.999_8, product: "family", signed: 29.999_8)
    #expect(current([before, charged, upgrade], at: 31) == ["3 family active"])
    // A purchase of the same product has no reliable order in the last minute.
    let again = period("3", from: 29.999_8, to: 59.999_8, signed: 29.999_8)
    #expect(current([before, charged, again], at: 31) == ["2 basic active"])
    // A return to the product at the end of its period.
    let back = period("4", from: 30, to: 60, signed: 30)
    #expect(current([before, upgrade, back], at: 31) == ["4 basic active"])
  }

  @Test func `a purchase at the instant at which a refunded period would have ended is no renewal`() {
    let refunded = period("1", from: 0, to: 30, revoked: 0, signed: 0)
    let bought = period("2", from: 29.9, to: 59.9, revoked: 29.91, signed: 29.91)
    let again = period("3", from: 30, to: 60, product: "family", signed: 30)
    #expect(current([refunded, bought, again], at: 31) == ["3 family active"])
  }

  @Test func `a renewal that begins early does not count as charged ahead`() {
    let early = period("2", from: 0.5, to: 60, signed: 0.5)
    #expect(current([before, early], at: 1) == ["2 basic active"])
  }

  @Test func `the token of the upgrade decides the owner, not the token of the charged renewal`() {
    let (anna, boris) = (UUID(), UUID())
    let facts = [
      period("1", from: 0, to: 30, token: anna),
      period("2", from: 30, to: 60, token: anna, signed: 29.25),
      period("2", from: 30, to: 60, upgraded: true, token: anna, signed: 29.75),
      period("3", from: 29.5, to: 59.5, product: "family", token: boris, signed: 29.5),
    ]
    let tokens = ordersWithRepeats(facts).map { SubscriptionFacts($0).customerToken }
    #expect(Set(tokens) == [boris])
  }

  @Test func `a replaced purchase is never current instead of the one that replaced it`() {
    let monthly = period("1", from: 0, to: 30, upgraded: true, signed: 2)
    let annual = period("2", from: 1, to: 366, product: "family", upgraded: true, signed: 2)
    // The purchase that replaced the annual one is not known yet.
    #expect(current([monthly, annual], at: 3) == ["2 family active"])
  }

  @Test func `the mark isUpgraded does not return a purchase to an earlier customer`() {
    let (anna, boris) = (UUID(), UUID())
    let facts = [
      period("1", from: 0, to: 30, upgraded: true, token: anna, signed: 3),
      period("2", from: 1, to: 31, upgraded: true, token: boris, signed: 3),
      period("3", from: 2, to: 32, signed: 3),
    ]
    #expect(Set(ordersWithRepeats(facts).map { SubscriptionFacts($0).customerToken }) == [boris])
  }

  @Test(.timeLimit(.minutes(1))) func `hundreds of purchases that replace one another are folded quickly`() {
    let facts = (0..<400).map { number in
      period(
        "\(1_000 + number)", from: Double(number) / 1_000, to: 30 + Double(number) / 1_000, upgraded: true,
        token: UUID(), signed: 2)
    }
    for seed in 0..<5 {
      let known = SubscriptionFacts(Array(facts[seed...] + facts[..<seed]))
      #expect(known.current?.transactionID == "1399")
      #expect(known.customerToken == facts.last?.appAccountToken)
    }
  }

  // MARK: Many transactions

  @Test(arguments: 0..<400 as Range<UInt64>)
  func `of any transactions those stand that no single one of the others replaced`(seed: UInt64) {
    var random = SplitMix64(state: seed)
    let facts = (0..<Int.random(in: 2...30, using: &random)).map { number -> TransactionFact in
      // Quarters of an hour within four days, so that dates meet, and some of them closer than a minute.
      let start = Double.random(in: 0..<384, using: &random).rounded() / 96
      let isClose = Int.random(in: 0..<4, using: &random) == 0
      let end: Double? =
        Int.random(in: 0..<8, using: &random) == 0
        ? nil : start + Double.random(in: 1..<200, using: &random).rounded() / 96
      return period(
        "\(number + 1)", from: isClose ? start + 0.0003 : start, to: end,
        revoked: Int.random(in: 0..<5, using: &random) == 0
          ? start + Double.random(in: -1..<1, using: &random) : nil,
        upgraded: Bool.random(using: &random), signed: start + Double.random(in: -1..<1, using: &random))
    }
    let standing = SubscriptionFacts(facts).standing.map(\.transactionID)
    #expect(Set(standing) == Set(Self.standing(facts)), "seed \(seed)")
  }

  /// The rule, pair by pair. Transactions of one date are copies of one period, since all have the same product.
  private static func standing(_ facts: [TransactionFact]) -> [String] {
    let joined = facts.map { fact in
      let copies = facts.filter { $0.purchaseDate == fact.purchaseDate }
      var joined = fact
      joined.revocationDate = copies.compactMap(\.revocationDate).min()
      joined.expiresDate = copies.compactMap(\.expiresDate).max()
      joined.isUpgraded = copies.contains(where: \.isUpgraded)
      return joined
    }
    let ordered = joined.sorted {
      ($0.purchaseDate, $0.isUpgraded ? 0 : 1, Int($0.transactionID) ?? 0)
        < ($1.purchaseDate, $1.isUpgraded ? 0 : 1, Int($1.transactionID) ?? 0)
    }
    var replaced: Set<String> = []
    for renewal in ordered {
      let begins = renewal.purchaseDate
      let bought = ordered.filter {
        $0.expiresDate == begins && ($0.revocationDate ?? .distantFuture) > begins - 2 * 86_400
      }.map(\.purchaseDate).min()
      let knownFrom = min(renewal.signedAt, renewal.revocationDate ?? .distantFuture)
      let isReplaced = ordered.contains { other in
        guard !replaced.contains(other.transactionID), let end = other.expiresDate,
          other.purchaseDate < begins,
          begins < end, other.purchaseDate >= begins - 2 * 86_400
        else { return false }
        return renewal.isUpgraded && !other.isUpgraded
          || knownFrom <= other.purchaseDate && knownFrom < begins - 60
          || other.purchaseDate < begins - 60 && (bought.map { $0 < other.purchaseDate } ?? false)
      }
      if isReplaced { replaced.insert(renewal.transactionID) }
    }
    return ordered.map(\.transactionID).filter { !replaced.contains($0) }
  }
}

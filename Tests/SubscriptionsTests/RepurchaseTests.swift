import Foundation
import Testing

@testable import Subscriptions

/// A lifetime product that is bought, refunded and bought again under the same original transaction id.
@Suite struct RepurchaseTests {
  /// The statuses at a day, for every order in which the facts can arrive.
  private func words(of facts: [TransactionFact], at days: Double) -> Set<String?> {
    Set(ordersWithRepeats(facts).map { SubscriptionFacts($0).words(at: days) })
  }

  private let first = lifetime("1000", bought: 0)
  private let refundOfFirst = lifetime("1000", bought: 0, revoked: 5)
  private let restored = lifetime("1001", bought: 3)
  private let second = lifetime("1002", bought: 7)
  private let refundOfSecond = lifetime("1002", bought: 7, revoked: 9)

  @Test func `a refund of a lifetime purchase ends it and its restored transactions`() {
    #expect(words(of: [first, restored, refundOfFirst], at: 6) == ["revoked/cancelled"])
  }

  @Test func `a lifetime purchase after a refund is active, in any order of arrival`() {
    #expect(words(of: [first, refundOfFirst, second], at: 8) == ["active/active"])
    #expect(words(of: [first, restored, refundOfFirst, second], at: 8) == ["active/active"])
  }

  @Test func `a lifetime purchase at the instant of the refund is active`() {
    let second = lifetime("1002", bought: 5)
    #expect(words(of: [first, refundOfFirst, second], at: 8) == ["active/active"])
  }

  @Test func `a refund of the second purchase cancels it, in any order of arrival`() {
    let facts = [first, refundOfFirst, second, refundOfSecond]
    #expect(words(of: facts, at: 10) == ["revoked/cancelled"])
  }

  @Test func `a refund of the second purchase ends its restored transactions`() {
    let facts = [first, refundOfFirst, second, lifetime("1003", bought: 8), refundOfSecond]
    #expect(words(of: facts, at: 10) == ["revoked/cancelled"])
    let revocations = ordersWithRepeats(facts).map { SubscriptionFacts($0).current?.revocationDate }
    #expect(Set(revocations) == [day(9)])
  }

  @Test func `a reversed refund of the second purchase restores it`() {
    let reversed = lifetime("1002", bought: 7, signed: 11)
    let facts = [first, refundOfFirst, second, refundOfSecond, reversed]
    #expect(words(of: facts, at: 12) == ["active/active"])
  }

  @Test func `a purchase under a new original id gives access, also after a refund of the first`() throws {
    let app = sampleApp()
    let refunded = try #require(SubscriptionFacts([first, refundOfFirst]).subscription(under: app))
    let again = try #require(
      SubscriptionFacts([lifetime("2000", bought: 7, original: "2000")]).subscription(under: app))
    for subscriptions in [[refunded, again], [again, refunded]] {
      let entitlements = app.entitlements(
        of: CustomerRecords(subscriptions: subscriptions), for: nil, at: day(8))
      #expect(entitlements.status == .active)
      #expect(entitlements.tier == "basic")
    }
  }
}

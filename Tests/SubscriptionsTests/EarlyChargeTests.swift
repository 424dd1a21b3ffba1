import Foundation
import Testing

@testable import Subscriptions

/// The App Store charges a renewal up to a day before it begins.
@Suite struct EarlyChargeTests {
  private func moveDown(
    _ before: TransactionFact = period("1", from: 0, to: 30, product: "family")
  ) throws -> Subscription {
    let next = period("2", from: 30, to: 60, product: "monthly", signed: 29.5)
    return try #require(SubscriptionFacts([before, next]).subscription(under: sampleApp()))
  }

  @Test func `a downgrade that is charged ahead keeps the higher tier until its last instant`() throws {
    let subscription = try moveDown()
    let app = sampleApp()
    let eve = app.entitlements(
      of: CustomerRecords(subscriptions: [subscription]), for: nil, at: day(30) - 0.001)
    #expect(eve.tier == "family")
    #expect(eve.features == ["seats": .count(5)])
    #expect(eve.validUntil == day(30))
    #expect(PremiumStatus(eve, at: day(29.9)).productID == "family")
    let then = app.entitlements(of: CustomerRecords(subscriptions: [subscription]), for: nil, at: day(30))
    #expect(then.tier == "basic")
    #expect(then.validUntil == day(60))
    #expect(PremiumStatus(then, at: day(30)).productID == "monthly")
  }

  @Test func `a renewal that is charged ahead has its new expiry at once`() throws {
    let subscription = try moveDown()
    #expect(subscription.storeAccessEnds == day(60))
    #expect(subscription.phase(at: day(29.6)).status == .active)
    #expect(subscription.nextChange(after: day(29.6)) == day(30))
    #expect(subscription.nextChange(after: day(30)) == day(60))
  }

  @Test func `a refunded or upgraded period does not become active before a renewal charged ahead`() throws {
    let refunded = try moveDown(period("1", from: 0, to: 30, product: "family", revoked: 20))
    #expect(refunded.tier(at: day(29.6)) == "basic")
    let upgraded = try moveDown(period("1", from: 0, to: 30, product: "family", upgraded: true))
    #expect(upgraded.tier(at: day(29.6)) == "basic")
  }

  @Test func `a renewal of the same product that is charged ahead changes nothing when it begins`() throws {
    let subscription = try moveDown(period("1", from: 0, to: 30, product: "old.monthly"))
    #expect(subscription.preceding == nil)
    #expect(subscription.nextChange(after: day(29.6)) == day(60))
  }

  @Test func `an upgrade is active at once, before the replaced period ends`() throws {
    let facts = SubscriptionFacts([
      period("1", from: 0, to: 30, upgraded: true, signed: 10),
      period("2", from: 10, to: 40, product: "family"),
    ])
    let subscription = try #require(facts.subscription(under: sampleApp()))
    #expect(subscription.tier(at: day(10)) == "family")
  }
}

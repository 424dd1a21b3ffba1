import Foundation
import Testing

@testable import Subscriptions

/// Access without a purchase: trial, grants, free access.
@Suite struct HoldingsTests {
  private static let device = Customer.device("phone")

  /// Thirty days of trial, seven of grace.
  private let app = sampleApp(
    ownGraceDays: 7, trial: Allowance(days: 30, features: ["seats": .count(5)]))

  private func entitlements(_ customerRecords: CustomerRecords, at days: Double) -> Entitlements {
    app.entitlements(of: customerRecords, for: Self.device, at: day(days))
  }

  private func trial(_ start: Double = 0, _ end: Double = 30) -> Trial {
    Trial(startedAt: day(start), endsAt: day(end))
  }

  private func grant(_ tier: String, _ start: Double, _ end: Double?) -> Grant {
    Grant(id: UUID(), tier: tier, startsAt: day(start), endsAt: end.map { day($0) })
  }

  @Test func `a trial opens every feature for its days, then gives its grace, then ends`() {
    let customerRecords = CustomerRecords(trial: trial())
    let running = entitlements(customerRecords, at: 29.999)
    #expect(running.status == .trial)
    #expect(running.isAccessGranted)
    #expect(running.tier == nil)
    #expect(running.features == ["seats": .count(5)])
    #expect(running.validUntil == day(30))
    let grace = entitlements(customerRecords, at: 30)
    #expect(grace.status == .grace)
    #expect(grace.isAccessGranted)
    #expect(grace.features == ["seats": .word("warning")])
    #expect(grace.validUntil == day(37))
    let over = entitlements(customerRecords, at: 37)
    #expect(over.status == .expired)
    #expect(!over.isAccessGranted)
    #expect(over.features == ["seats": .count(0)])
    #expect(over.validUntil == nil)
  }

  @Test func `a purchase during the trial ends the trial, even if the purchase is refunded`() throws {
    let bought = try #require(
      SubscriptionFacts([period("1000", from: 10, to: 40)]).subscription(under: app))
    #expect(entitlements(CustomerRecords(subscriptions: [bought], trial: trial()), at: 11).status == .active)
    #expect(entitlements(CustomerRecords(subscriptions: [bought], trial: trial()), at: 11).tier == "basic")
    let refunded = try #require(
      SubscriptionFacts([period("1000", from: 10, to: 40, revoked: 12)]).subscription(under: app))
    let after = entitlements(CustomerRecords(subscriptions: [refunded], trial: trial()), at: 13)
    #expect(after.status == .cancelled)
    #expect(!after.isAccessGranted)
  }

  @Test func `a purchase that does not count does not end the trial`() throws {
    let sandbox = try #require(
      SubscriptionFacts([period("1000", from: 10, to: 40, environment: .sandbox)]).subscription(under: app))
    #expect(entitlements(CustomerRecords(subscriptions: [sandbox], trial: trial()), at: 11).status == .trial)
  }

  @Test func `free access pauses a trial`() {
    let free = FreeAccess([FreeAccess.Period(startsAt: day(10), endsAt: day(15))])
    let customerRecords = CustomerRecords(trial: trial(), freeAccess: free)
    #expect(entitlements(customerRecords, at: 34.9).status == .trial)
    #expect(entitlements(customerRecords, at: 35).status == .grace)
    #expect(entitlements(customerRecords, at: 42).status == .expired)
  }

  @Test func `a grant gives its tier from its first instant until its end`() {
    let customerRecords = CustomerRecords(grants: [grant("family", 5, 10)])
    #expect(!entitlements(customerRecords, at: 4.9).isAccessGranted)
    #expect(entitlements(customerRecords, at: 4.9).validUntil == day(5))
    let open = entitlements(customerRecords, at: 5)
    #expect(open.tier == "family")
    #expect(open.status == .active)
    #expect(open.validUntil == day(10))
    #expect(!entitlements(customerRecords, at: 10).isAccessGranted)
  }

  @Test func `the higher tier of a grant and a purchase counts`() throws {
    let bought = try #require(
      SubscriptionFacts([period("1000", from: 0, to: 30)]).subscription(under: app))
    let customerRecords = CustomerRecords(subscriptions: [bought], grants: [grant("family", 5, 10)])
    #expect(entitlements(customerRecords, at: 4).tier == "basic")
    #expect(entitlements(customerRecords, at: 7).tier == "family")
    #expect(entitlements(customerRecords, at: 12).tier == "basic")
    // A grant of support stays after a refund of the purchase.
    let refunded = try #require(
      SubscriptionFacts([period("1000", from: 0, to: 30, revoked: 6)]).subscription(under: app))
    #expect(
      entitlements(CustomerRecords(subscriptions: [refunded], grants: [grant("basic", 5, nil)]), at: 8).tier
        == "basic")
  }

  @Test func `a grant of the highest tier and free access count during a trial, and a lower grant after it`()
  {
    let highest = CustomerRecords(trial: trial(), grants: [grant("family", 5, 8)])
    #expect(entitlements(highest, at: 4).status == .trial)
    #expect(entitlements(highest, at: 6).tier == "family")
    #expect(entitlements(highest, at: 6).validUntil == day(8))
    #expect(entitlements(highest, at: 9).status == .trial)
    let lower = CustomerRecords(trial: trial(), grants: [grant("basic", 5, 40)])
    #expect(entitlements(lower, at: 6).status == .trial)
    #expect(entitlements(lower, at: 31).tier == "basic")
    let free = FreeAccess([FreeAccess.Period(startsAt: day(10), endsAt: nil)])
    #expect(entitlements(CustomerRecords(trial: trial(), freeAccess: free), at: 11).tier == "family")
  }

  @Test func `the profile of a lifetime grant has a product and no expiry`() {
    let status = PremiumStatus(
      entitlements(CustomerRecords(grants: [grant("basic", 0, nil)]), at: 3), at: day(3))
    #expect(status.isPremium)
    #expect(status.expiresAt == nil)
    #expect(status.productID == "grant:basic")
    #expect(status.originalTransactionID == nil)
  }

  @Test func `during free access every customer has the highest tier`() {
    let free = FreeAccess([FreeAccess.Period(startsAt: day(10), endsAt: nil)])
    let newCustomer = entitlements(CustomerRecords(freeAccess: free), at: 11)
    #expect(newCustomer.isAccessGranted)
    #expect(newCustomer.status == .active)
    #expect(newCustomer.tier == "family")
    #expect(newCustomer.features == ["seats": .count(5)])
    #expect(newCustomer.validUntil == nil)
    #expect(!entitlements(CustomerRecords(freeAccess: free), at: 9).isAccessGranted)
    #expect(entitlements(CustomerRecords(freeAccess: free), at: 9).validUntil == day(10))
  }

  @Test func `a sandbox trial and a sandbox grant count for testers only`() {
    let trial = Trial(startedAt: day(0), endsAt: day(30), environment: .sandbox)
    let grant = Grant(id: UUID(), tier: "basic", startsAt: day(0), endsAt: nil, environment: .sandbox)
    for customerRecords in [CustomerRecords(trial: trial), CustomerRecords(grants: [grant])] {
      #expect(!entitlements(customerRecords, at: 3).isAccessGranted)
      #expect(entitlements(customerRecords, at: 3).source == nil)
      let tested = sampleApp(
        sandbox: .testers(["PHONE"]), trial: Allowance(days: 30, features: ["seats": .count(5)]))
      #expect(tested.entitlements(of: customerRecords, for: Self.device, at: day(3)).isAccessGranted)
      #expect(!tested.entitlements(of: customerRecords, for: .device("tablet"), at: day(3)).isAccessGranted)
    }
  }

  @Test func `of two trials the one whose environment counts decides, then the one that ends last`() {
    let own = trial(0, 30)
    let sandbox = Trial(startedAt: day(20), endsAt: day(50), environment: .sandbox)
    #expect(app.trial(among: [sandbox, own], for: Self.device, at: day(3)) == own)
    #expect(app.trial(among: [sandbox], for: Self.device, at: day(3)) == sandbox)
    #expect(app.trial(among: [], for: Self.device, at: day(3)) == nil)
    let tested = sampleApp(sandbox: .everyone)
    #expect(tested.trial(among: [own, sandbox], for: Self.device, at: day(3)) == sandbox)
  }

  @Test func `a future grant that does not count changes no entitlements`() {
    let removed = Grant(id: UUID(), tier: "removed", startsAt: day(5), endsAt: nil)
    #expect(entitlements(CustomerRecords(grants: [removed]), at: 3).validUntil == nil)
  }
}

import Foundation
import Testing

@testable import Subscriptions

@Suite struct EntitlementTests {
  private func subscription(
    _ transactions: TransactionFact..., renewal: RenewalFact? = nil, app: App = sampleApp()
  ) throws -> Subscription {
    try #require(SubscriptionFacts(transactions, renewal).subscription(under: app))
  }

  @Test func `a customer without records has the free features`() {
    let nothing = sampleApp().entitlements(of: CustomerRecords(subscriptions: []), for: nil, at: day(0))
    #expect(nothing.isAccessGranted == false)
    #expect(nothing.tier == nil)
    #expect(nothing.features == ["seats": .count(0)])
    #expect(nothing.validUntil == nil)
    #expect(nothing.offlineGraceUntil == nil)
  }

  @Test func `a former customer had access, and a new one never had`() throws {
    let app = sampleApp(trial: Allowance(days: 10, features: ["seats": .count(1)]))
    func had(_ records: CustomerRecords, at days: Double = 1) -> Bool {
      app.entitlements(of: records, for: nil, at: day(days)).everHadAccess
    }
    #expect(!had(CustomerRecords()))
    let trial = CustomerRecords(trial: Trial(startedAt: day(0), endsAt: day(10)))
    #expect(had(trial) && had(trial, at: 400))
    let running = CustomerRecords(subscriptions: [try subscription(period("1000", from: 0, to: 30))])
    #expect(had(running) && had(running, at: 400))
    let refunded = CustomerRecords(
      subscriptions: [try subscription(period("1000", from: 0, to: 30, revoked: 3, signed: 3))])
    #expect(had(refunded, at: 4))
    // A grant that ended, one that was revoked, and one that has not begun.
    let grant = Grant(id: UUID(), tier: "family", startsAt: day(2), endsAt: day(5))
    #expect(had(CustomerRecords(grants: [grant]), at: 400))
    #expect(had(CustomerRecords(hadGrant: true)))
    #expect(!had(CustomerRecords(grants: [grant])))
    // Free access is everyone's and makes no customer a former one.
    let free = FreeAccess([FreeAccess.Period(startsAt: day(0), endsAt: day(2))])
    let opened = app.entitlements(of: CustomerRecords(freeAccess: free), for: nil, at: day(1))
    #expect(opened.isAccessGranted && !opened.everHadAccess)
    #expect(!had(CustomerRecords(freeAccess: free), at: 3))
    // What never gave access: a product that the catalog does not have, and the sandbox for customers who are no testers.
    #expect(
      !had(
        CustomerRecords(
          subscriptions: [try subscription(period("1000", from: 0, to: 30, product: "unheard"))])))
    #expect(
      !had(
        CustomerRecords(
          subscriptions: [try subscription(period("1000", from: 0, to: 30, environment: .sandbox))],
          trial: Trial(startedAt: day(0), endsAt: day(10), environment: .sandbox))))
  }

  @Test func `entitlements have their end and the end of offline use`() throws {
    let one = try subscription(period("1000", from: 0, to: 30))
    let entitlements = sampleApp().entitlements(
      of: CustomerRecords(subscriptions: [one]), for: nil, at: day(1))
    #expect(entitlements.tier == "basic")
    #expect(entitlements.features == ["seats": .count(1)])
    #expect(entitlements.validUntil == day(30))
    #expect(entitlements.offlineGraceUntil == day(8))
  }

  @Test func `paid time counts offline where it opens as much as what decides`() throws {
    let app = sampleApp(offline: .paidTime)
    let forever = try subscription(lifetime("1000", bought: 0))
    let family = try subscription(period("2000", from: 0, to: 30, product: "family", original: "2000"))
    func end(_ records: CustomerRecords) -> Date? {
      app.entitlements(of: records, for: nil, at: day(1)).offlineGraceUntil
    }
    #expect(end(CustomerRecords(subscriptions: [forever])) == Entitlements.endless)
    // A token for the family's features ends with the family's time, though the weaker purchase has no end.
    #expect(end(CustomerRecords(subscriptions: [forever, family])) == day(30))
    let free = FreeAccess([FreeAccess.Period(startsAt: day(0), endsAt: day(2))])
    #expect(end(CustomerRecords(subscriptions: [forever], freeAccess: free)) == day(8))
    let grant = Grant(id: UUID(), tier: "family", startsAt: day(0), endsAt: nil)
    #expect(end(CustomerRecords(subscriptions: [family], grants: [grant])) == Entitlements.endless)
  }

  @Test func `paid time of a weaker product that was charged ahead does not count offline`() throws {
    let app = sampleApp(offline: .paidTime)
    func end(_ first: String, _ next: String) throws -> Date? {
      let changed = try subscription(
        period("1000", from: 0, to: 30, product: first), period("2000", from: 30, to: 395, product: next),
        app: app)
      #expect(changed.tier(at: day(29.5)) == (first == "monthly" ? "basic" : first))
      return app.entitlements(of: CustomerRecords(subscriptions: [changed]), for: nil, at: day(29.5))
        .offlineGraceUntil
    }
    // Seven days without network after the request.
    #expect(try end("family", "monthly") == day(36.5))
    #expect(try end("monthly", "family") == day(395))
    #expect(try end("family", "family") == day(395))
  }

  @Test func `what the sandbox gives lasts offline for the days without network, and not beyond the window`()
    throws
  {
    let bought = try subscription(
      period(
        "1000", from: 0, to: nil, product: "lifetime", kind: .nonConsumable,
        environment: .sandbox))
    let award = Grant(id: UUID(), tier: "basic", startsAt: day(0), endsAt: nil, environment: .sandbox)
    for records in [CustomerRecords(subscriptions: [bought]), CustomerRecords(grants: [award])] {
      func end(_ sandbox: SandboxGrants, _ offline: OfflineRule = .paidTime) -> Date? {
        sampleApp(sandbox: sandbox, offline: offline).entitlements(of: records, for: nil, at: day(1))
          .offlineGraceUntil
      }
      #expect(end(.everyone) == day(8))
      #expect(end(.everyoneUntil(day(20))) == day(8))
      #expect(end(.everyoneUntil(day(3))) == day(3))
      #expect(end(.everyoneUntil(day(3)), .grace) == day(3))
      #expect(end(.nobody) == nil)
    }
  }

  @Test func `the highest active tier counts, and an expired one does not`() throws {
    let basic = try subscription(period("1000", from: 0, to: 30))
    let family = try subscription(period("2000", from: 0, to: 10, product: "family", original: "2000"))
    let app = sampleApp()
    #expect(
      app.entitlements(of: CustomerRecords(subscriptions: [basic, family]), for: nil, at: day(5)).tier
        == "family")
    #expect(
      app.entitlements(of: CustomerRecords(subscriptions: [family, basic]), for: nil, at: day(15)).tier
        == "basic")
  }

  @Test func `without access the source that ended last decides the status, and a refund ends a source`()
    throws
  {
    let app = sampleApp()
    func status(refunded: Double, expired: Double) throws -> Status {
      let lifetime = try subscription(
        period(
          "1000", from: refunded - 5, to: nil, product: "lifetime", kind: .nonConsumable, revoked: refunded,
          signed: refunded))
      let monthly = try subscription(period("2000", from: expired - 30, to: expired, original: "2000"))
      return app.entitlements(
        of: CustomerRecords(subscriptions: [lifetime, monthly]), for: nil, at: day(200)
      ).status
    }
    #expect(try status(refunded: 10, expired: 130) == .expired)
    #expect(try status(refunded: 140, expired: 130) == .cancelled)
  }

  @Test func `Apple's billing grace keeps the tier, and the app's own grace gives its own features`() throws {
    let app = sampleApp(ownGraceDays: 7)
    let one = try subscription(
      period("1000", from: 0, to: 30), renewal: renewalInfo(signed: 30, retry: true, graceUntil: 33),
      app: app)
    #expect(
      app.entitlements(of: CustomerRecords(subscriptions: [one]), for: nil, at: day(32)).features == [
        "seats": .count(1)
      ])
    let own = app.entitlements(of: CustomerRecords(subscriptions: [one]), for: nil, at: day(34))
    #expect(own.features == ["seats": .word("warning")])
    #expect(own.status == .grace)
    #expect(own.isAccessGranted)
    #expect(
      app.entitlements(of: CustomerRecords(subscriptions: [one]), for: nil, at: day(38)).features == [
        "seats": .count(0)
      ])
  }

  @Test func `a sandbox purchase gives access only to testers`() throws {
    let tester = UUID()
    let one = try subscription(period("1000", from: 0, to: 30, environment: .sandbox))
    func isOpen(_ grants: SandboxGrants, _ customer: Customer?) -> Bool {
      sampleApp(sandbox: grants).entitlements(
        of: CustomerRecords(subscriptions: [one]), for: customer, at: day(1)
      )
      .isAccessGranted
    }
    #expect(!isOpen(.nobody, .user(tester)))
    #expect(isOpen(.everyone, nil))
    #expect(isOpen(.testers([tester.uuidString]), .user(tester)))
    #expect(!isOpen(.testers([tester.uuidString]), .user(UUID())))
    #expect(!isOpen(.testers([tester.uuidString]), nil))
  }

  @Test
  func `the profile has the end of access, no product after a refund, and no expiry for a lifetime purchase`()
    throws
  {
    let app = sampleApp()
    func premium(_ subscription: Subscription, at days: Double) -> PremiumStatus {
      PremiumStatus(
        app.entitlements(of: CustomerRecords(subscriptions: [subscription]), for: nil, at: day(days)),
        at: day(days))
    }
    let graced = premium(
      try subscription(
        period("1000", from: 0, to: 30), renewal: renewalInfo(signed: 30, retry: true, graceUntil: 46)),
      at: 31)
    #expect(graced.isPremium && graced.isInGracePeriod && graced.willRenew)
    #expect(graced.expiresAt == day(46))

    let refunded = premium(
      try subscription(period("1000", from: 0, to: 30, revoked: 3, signed: 3)), at: 4)
    #expect(!refunded.isPremium && !refunded.willRenew)
    #expect(refunded.expiresAt == nil && refunded.productID == nil)

    let lifetime = premium(
      try subscription(period("1000", from: 0, to: nil, product: "lifetime", kind: .nonConsumable)), at: 4)
    #expect(lifetime.isPremium && !lifetime.willRenew)
    #expect(lifetime.expiresAt == nil && lifetime.productID == "lifetime")
  }
}

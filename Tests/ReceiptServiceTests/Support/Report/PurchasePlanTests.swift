import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing
import Text

@testable import Customers
@testable import ReceiptService
@testable import Support

/// What a report and the views say of a purchase's prices and of the next period.
@Suite struct PurchasePlanTests {
  private func purchase(_ id: String, _ harness: Harness) async throws -> ReportedPurchase {
    let report = try await harness.desk.customer(id)
    let purchase = report.customers.first?.purchases.first ?? report.unclaimed.first
    #expect(report.description.split(separator: "\n").allSatisfy { $0.count <= 80 })
    return try #require(purchase)
  }

  private func text(_ id: String, _ harness: Harness) async throws -> String {
    // Without line breaks, because long lines are wrapped.
    try await harness.desk.customer(id).description.split(whereSeparator: \.isWhitespace)
      .joined(separator: " ")
  }

  @Test func `a report has the price, storefront, offer, next price, first purchase and the sum paid`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, appAccountToken: user,
          offer: .freeTrial()))
      try await harness.arrives(bought)
      let id = bought.originalTransactionID
      var plan = try await purchase(id, harness).plan
      #expect(plan.price == Money("0.00", "USD"))
      #expect(plan.storefront == "USA")
      #expect(plan.offer == "introductory offer (free trial)")
      #expect(plan.renewalPrice == Money("4.99", "USD"))
      #expect(plan.totalPaid.isEmpty)
      #expect(try await text(id, harness).contains("will renew for 4.99 USD"))
      #expect(try await text(id, harness).contains("paid in total: nothing"))

      var periods: [SignedOutcome] = []
      for _ in 0..<3 {
        harness.clock.set(
          try #require(periods.last?.transaction.expiresDate ?? bought.transaction.expiresDate))
        periods.append(try await harness.happens(.renew, to: id))
      }
      try await harness.happens(
        .refund(transactionID: periods[0].transactionID, percentage: nil, reason: nil), to: id)
      try await harness.happens(
        .refund(transactionID: periods[1].transactionID, percentage: 50, reason: nil), to: id)
      let renewed = try await purchase(id, harness)
      plan = renewed.plan
      #expect(plan.price == Money("4.99", "USD"))
      #expect(plan.offer == nil)
      // Three times 4.99, without one price and half of another, rounded to cents.
      #expect(plan.totalPaid.map(\.description) == ["7.48 USD"])
      #expect(plan.firstPurchaseDate == bought.transaction.purchaseDate)
      #expect(renewed.purchaseDate == periods[2].transaction.purchaseDate)
      #expect(plan.confirmedAt ?? .distantPast >= periods[2].transaction.signedDate)
      #expect(
        try await text(id, harness).contains(
          "bought \(bought.transaction.purchaseDate.rfc3339), current period since "
            + renewed.purchaseDate.rfc3339))
    }
  }

  @Test func `a family member's and a tester's purchase cost nothing`() async throws {
    try await withHarness(configuration: TestApps.configuration(sandboxGrants: #""everyone""#)) { harness in
      let tested = try harness.buy(in: .sandbox)
      try await harness.arrives(tested)
      #expect(
        try await text(tested.originalTransactionID, harness).contains("paid in total: nothing (Sandbox)"))
      let shared = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, ownership: .familyShared))
      try await harness.arrives(shared)
      let story = try await text(shared.originalTransactionID, harness)
      #expect(!story.contains("paid in total"))
      #expect(!story.contains("price 4.99"))
    }
  }

  @Test func `a report shows a pending downgrade and its price until it is done`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      let id = bought.originalTransactionID
      #expect(try await purchase(id, harness).plan.pendingProductID == nil)
      try await harness.happens(.changeProduct(TestApps.monthly), to: id)
      let pending = try await purchase(id, harness)
      #expect(pending.productID == TestApps.annual)
      #expect(pending.plan.pendingProductID == TestApps.monthly)
      #expect(pending.plan.renewalPrice == Money("4.99", "USD"))
      #expect(try await text(id, harness).contains("changes to \(TestApps.monthly) at the next renewal"))
      let events = try await harness.desk.customer(user.uuidString).customers[0].events
      #expect(events.contains { $0.what.hasSuffix(", renews as \(TestApps.monthly)") })

      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: id)
      let done = try await purchase(id, harness)
      #expect(done.productID == TestApps.monthly)
      #expect(done.plan.pendingProductID == nil)
    }
  }

  @Test func `a report shows a price increase with the customer's answer`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.happens(.announcePrice(6_990), to: id)
      #expect(try await purchase(id, harness).plan.priceIncrease == "pending")
      #expect(try await text(id, harness).contains("will renew for 6.99 USD"))
      #expect(try await text(id, harness).contains("price increase: the customer has not agreed yet"))
      try await harness.happens(.acceptPrice, to: id)
      #expect(try await purchase(id, harness).plan.priceIncrease == "accepted")
    }
  }

  @Test func `an unpaid, ended subscription never says that it will renew`() async throws {
    try await withHarness { harness in
      let (_, declined) = try await harness.customer()
      let (_, silent) = try await harness.customer()
      let (_, cancelled) = try await harness.customer()
      let (_, graced) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: cancelled.originalTransactionID)
      harness.clock.set(try #require(cancelled.transaction.expiresDate))
      harness.clock.advance(seconds: 60)
      try await harness.happens(.failToRenew(grace: false), to: declined.originalTransactionID)
      try await harness.happens(.failToRenew(grace: true), to: graced.originalTransactionID)
      try await harness.happens(.expire(nil), to: cancelled.originalTransactionID)
      let cases = [
        (declined, "unpaid: Apple tries to charge 4.99 USD"), (silent, "ended 20"),
        (cancelled, "(cancelled by the customer)"), (graced, ": Apple tries to charge 4.99 USD"),
      ]
      for (outcome, expected) in cases {
        let story = try await text(outcome.originalTransactionID, harness)
        #expect(story.contains(expected), "\(story)")
        #expect(!story.contains("will renew"), "\(story)")
        let purchase = try await purchase(outcome.originalTransactionID, harness)
        #expect(purchase.willRenew == (outcome.originalTransactionID == graced.originalTransactionID))
      }
    }
  }

  @Test func `a report says how many earlier events it hides`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id)
        SELECT \(TestApps.family), 'phone', 'kid-' || n FROM generate_series(1, 23) AS n
        """)
      let report = try await harness.desk.customer("phone")
      let customer = try #require(report.customers.first)
      #expect(customer.events.count == 20)
      #expect(customer.eventsHidden == 3)
      #expect(customer.children.count == 20)
      #expect(customer.childrenHidden == 3)
      #expect(report.description.contains("last events (UTC); 3 earlier ones are hidden"))
    }
  }

  @Test func `a report names all devices that share a purchase, also after the first one left`() async throws
  {
    try await withShippedApps(Heatlab.sharing(among: 2)) { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      for device in ["first", "second", "third"] {
        _ = try await harness.device(device, shows: bought)
        harness.clock.advance(seconds: 60)
      }
      for device in ["second", "third"] {
        let report = try await harness.desk.customer(device)
        #expect(report.customers[0].purchases[0].devices.map(\.deviceID) == ["second", "third"])
        #expect(report.description.contains("    shared by the devices\n      second, since "))
      }
      let former = try await harness.desk.customer("first").customers[0]
      #expect(former.because.hasPrefix("the purchase \(bought.originalTransactionID) moved to third at "))
    }
  }

  @Test func `access_until of support_customers is the end that the report says, with the app's own grace`()
    async throws
  {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      let bought = try await harness.device("bought", buys: ScreenTime.individual)
      _ = try await harness.launch("trial")
      _ = try await harness.device("granted", buys: ScreenTime.individual)
      _ = try await harness.desk.grant(
        to: "granted", bundleID: ScreenTime.bundleID, tier: "family", days: 90, by: ada)
      for device in ["bought", "trial", "granted"] {
        let report = try await harness.desk.customer(device)
        let rows = try await harness.pool.query(
          "SELECT access_until FROM support_customers WHERE device_id = \(device)")
        let end = try rows[0].decode("access_until", as: Date.self)
        #expect(report.customers[0].accessUntil == end, "\(device)")
        #expect(report.description.contains("until \(end.rfc3339)"), "\(report)")
      }
      let paid = try #require(bought.transaction.expiresDate)
      let customer = try await harness.desk.customer("bought").customers[0]
      #expect(customer.accessUntil == paid + 7 * 86_400)
      #expect(customer.entitlements.validUntil == paid)
    }
  }

  @Test func `the timeline has a line for each period and each loss of access, with price and source`()
    async throws
  {
    try await withHarness { harness in
      harness.clock.advance(days: -200)
      let user = UUID()
      let bought = try harness.buy(token: user)
      let id = bought.originalTransactionID
      _ = try await harness.sync(
        [bought.signedTransaction], user: user, token: harness.token(for: user))
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: id)
      // It ends, and a month later the customer subscribes again.
      try await harness.happens(.setAutoRenew(false), to: id)
      let end = try #require(renewed.transaction.expiresDate)
      harness.clock.set(end)
      try await harness.happens(.expire(nil), to: id)
      harness.clock.advance(days: 30)
      let again = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly,
          accountID: bought.transaction.appTransactionId, appAccountToken: user))
      try await harness.arrives(again)
      harness.clock.advance(days: 5)
      try await harness.happens(.refundLatest, to: again.originalTransactionID)
      let rows = try await harness.pool.query(
        """
        SELECT event, what, price::text, currency, source FROM support_timeline
        WHERE user_id = \(user) AND event <> 'notification' ORDER BY at, event
        """)
      let events = try rows.map {
        "\(try $0.decode("event", as: String.self)) \(try $0.decode("price", as: String?.self) ?? "-") "
          + (try $0.decode("source", as: String.self))
      }
      #expect(
        events == [
          "purchase 4.99 proof", "renewal 4.99 webhook", "access ended - time", "purchase 4.99 webhook",
          "revoked -4.99 webhook",
        ])
      let what = try rows.map { try $0.decode("what", as: String.self) }
      #expect(what[2] == "\(TestApps.monthly): cancelled by the customer" || what[2] == TestApps.monthly)
      #expect(what[4].hasSuffix(", refund of 4.99 USD, access ended"), "\(what[4])")
      let customer = try await harness.pool.query(
        "SELECT total_paid::text, plans, will_renew FROM support_customers WHERE user_id = \(user)")
      #expect(try customer[0].decode("total_paid", as: String.self) == #"{"USD": 9.98}"#)
      #expect(try customer[0].decode("plans", as: String?.self) == nil)
      #expect(try customer[0].decode("will_renew", as: Bool.self) == false)
    }
  }
}

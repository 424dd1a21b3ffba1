import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// A downgrade with a renewal that is charged half a day ahead.
@Suite struct EarlyChargeTests {
  @Test func `a downgrade charged ahead keeps the higher tier until it begins, in response, row and view`()
    async throws
  {
    try await withHarness { harness in
      let family = TestApps.familyPlan
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(family, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      _ = try await harness.validate([
        "signedTransaction": bought.signedTransaction, "deviceID": "device-1",
      ])
      let moved = try harness.store.perform(.changeProduct(TestApps.individual), on: id)
      #expect(try await harness.notify(moved.notification.signedPayload).status == 200)
      let begins = try #require(bought.transaction.expiresDate)
      harness.clock.set(begins.addingTimeInterval(-12 * 3_600))
      let renewed = try harness.store.perform(.renew, on: id)
      #expect(renewed.transaction.purchaseDate == begins)
      #expect(try await harness.notify(renewed.notification.signedPayload).status == 200)

      func answer() async throws -> Answer {
        try await harness.validate([
          "signedTransaction": bought.signedTransaction, "deviceID": "device-1",
        ])
      }
      let eve = try await answer()
      #expect(eve.string("entitlements.tier") == "family")
      #expect(eve.string("subscription.productID") == family)
      #expect(eve.date("entitlements.validUntil") == begins)
      #expect(eve.date("subscription.expiryDate") == renewed.transaction.expiresDate)
      #expect(try await harness.row(of: id).tier == "family")
      let view = "SELECT tier, upcoming_product_id FROM support_subscriptions"
      #expect(
        try await harness.pool.query("\(unescaped: view)")[0].decode("tier", as: String.self) == "family")
      #expect(
        try await harness.pool.query("\(unescaped: view)")[0].decode("upcoming_product_id", as: String.self)
          == TestApps.individual)
      let page = try await harness.desk.customer("device-1").description
      #expect(page.contains("\(family), tier family"))
      #expect(page.contains("next period charged ahead: \(TestApps.individual) from"))
      #expect(page.contains("price of the next period"))

      harness.clock.set(begins)
      #expect(try await !harness.desk.customer("device-1").description.contains("next period"))
      // The response is correct before the sweep.
      let devices = SubscriptionRows.select(users: [], devices: ["device-1"])
      let stored = try await harness.pool.query(devices).map(SubscriptionRows.decode)
      #expect(stored.first?.subscription.tier(at: begins) == "individual")
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: id).tier == "individual")
      #expect(try await harness.row(of: id).productID == TestApps.individual)
      #expect(try await answer().string("entitlements.tier") == "individual")
    }
  }

  @Test(arguments: [true, false])
  func `an upgrade after a renewal was charged stays active when that renewal begins`(
    isMarked: Bool
  ) async throws {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      _ = try await harness.device("device-1", shows: bought)
      let begins = try #require(bought.transaction.expiresDate)
      harness.clock.set(begins.addingTimeInterval(-12 * 3_600))
      let renewed = try await harness.happens(.renew, to: id)
      #expect(renewed.transaction.purchaseDate == begins)
      harness.clock.advance(seconds: 3_600)
      var upgraded = try await harness.happens(.changeProduct(TestApps.familyPlan), to: id)
      #expect(upgraded.transaction.purchaseDate == harness.clock.now)

      func expectFamily() async throws {
        let answer = try await harness.device("device-1", shows: bought)
        #expect(answer.string("entitlements.tier") == "family")
        #expect(answer.string("subscription.transactionID") == upgraded.transactionID)
        #expect(answer.date("subscription.expiryDate") == upgraded.transaction.expiresDate)
        #expect(try await harness.row(of: id).tier == "family")
        #expect(try await harness.row(of: id).status == "active")
      }
      try await expectFamily()
      for date in [begins, begins.addingTimeInterval(86_400)] {
        harness.clock.set(date)
        _ = try await harness.service.sweep.run()
        if isMarked {
          // The device sends the replaced renewal, as the App Store signs it now.
          var replaced = renewed.transaction
          replaced.isUpgraded = true
          replaced.signedDate = harness.clock.now
          let members = ["signedTransaction": try harness.sign(replaced), "deviceID": "device-1"]
          #expect(try await harness.validate(members).string("subscription.tier") == "family")
        }
        try await expectFamily()
      }

      // The upgrade is renewed, and then refunded.
      harness.clock.set(try #require(upgraded.transaction.expiresDate))
      upgraded = try await harness.happens(.renew, to: id)
      try await expectFamily()
      try await harness.happens(.refundLatest, to: id)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }
}

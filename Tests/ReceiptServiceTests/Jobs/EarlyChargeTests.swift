import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// A downgrade whose renewal is charged half a day ahead.
@Suite struct EarlyChargeTests {
  @Test func `the higher tier stays open until the renewal begins, in the answer, the row and the view`()
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
      #expect(try await harness.pool.query("\(unescaped: view)")[0].decode(0, as: String.self) == "family")
      #expect(
        try await harness.pool.query("\(unescaped: view)")[0].decode(1, as: String.self)
          == TestApps.individual)

      harness.clock.set(begins)
      // The answer is right before anything is written anew.
      let devices = SubscriptionRows.select(users: [], devices: ["device-1"])
      let stored = try await harness.pool.query(devices).map(SubscriptionRows.decode)
      #expect(stored.first?.subscription.tier(at: begins) == "individual")
      #expect(try await harness.service.sweep.run() == 1)
      #expect(try await harness.row(of: id).tier == "individual")
      #expect(try await harness.row(of: id).productID == TestApps.individual)
      #expect(try await answer().string("entitlements.tier") == "individual")
    }
  }
}

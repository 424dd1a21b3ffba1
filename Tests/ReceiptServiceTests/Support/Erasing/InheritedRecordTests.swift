import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// What stays for the device that inherits the purchase of an erased one.
@Suite struct InheritedRecordTests {
  @Test func `an event without an owner is told to the device that inherits the purchase`() async throws {
    try await withEvents(["renewed"]) { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      // As if it had been written before the first claim.
      _ = try await harness.pool.query("UPDATE lifecycle_events SET device_id = NULL WHERE type = 'renewed'")
      try await harness.erase("old-phone")
      try await harness.service.deliveries.outbox.run()
      #expect(try receiver.first(.renewed).text("customer.id") == "new-phone")
    }
  }

  @Test func `a question about a refund waits on for the device that inherits the purchase`() async throws {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      try await harness.requestsRefund(of: bought)
      try await harness.erase("old-phone")
      #expect(try await harness.count("store_calls WHERE settled_at IS NULL") == 1)
      try await harness.erase("new-phone")
      #expect(try await harness.count("store_calls WHERE outcome = 'no_consent'") == 1)
    }
  }

  @Test func `what support wrote about a purchase stays for the device that inherits it`() async throws {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      let ada = try #require(Harness.makeAuthor("ada", "ticket 9"))
      _ = try await harness.desk.preferRefund(.decline, for: id, by: ada)
      _ = try await harness.pool.query(
        """
        INSERT INTO store_orders (order_id, transaction_id, original_transaction_id, bundle_id, environment, looked_up_at)
        VALUES ('MVJ8Z0DJ7B', \(bought.transactionID), \(id), \(TestApps.family), 'Production', now())
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, original_transaction_id, product_id, days,
          reason_code, by, reason, requested_at)
        VALUES (gen_random_uuid(), \(TestApps.family), 'Production', \(id), \(TestApps.individual), 1, 0, 'ada', 'ticket 9',
          now())
        """)
      func preference() async throws -> RefundAnswer.Preference? {
        try await RefundAnswerRows.decodePreference(harness.pool.query(RefundAnswerRows.preference(of: id)))
      }
      let letter = try #require(Harness.makeAuthor("ada", "asked by letter"))
      let dry = try await harness.desk.eraseCustomer("old-phone", by: letter, isDryRun: true)
      let report = try await harness.erase("old-phone")
      let rows = try #require(report.erased.first?.rows)
      #expect(dry.erased.first?.rows == rows)
      #expect(rows["store_orders"] == nil && rows["renewal_extensions"] == nil, "\(rows)")
      #expect(try await harness.row(of: id).deviceID == "new-phone")
      let kept = RefundAnswer.Preference(choice: .decline, by: "ada", reason: "ticket 9")
      #expect(try await preference() == kept)
      #expect(try await harness.count("store_orders") == 1)
      #expect(try await harness.count("renewal_extensions WHERE reason = 'ticket 9'") == 1)

      let last = try #require(try await harness.erase("new-phone").erased.first?.rows)
      #expect(last["store_orders"] == 1 && last["renewal_extensions"] == 1, "\(last)")
      #expect(try await preference() == nil)
      #expect(try await harness.tables(with: "ticket 9") == [])
    }
  }
}

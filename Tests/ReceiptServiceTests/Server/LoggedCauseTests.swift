import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService

/// Log lines that name the cause of a fault outside receiptd.
@Suite struct LoggedCauseTests {
  @Test func `a key that the App Store refuses is named in the response, and in the log with the app`()
    async throws
  {
    try await withStoreHarness { harness in
      harness.front.set { _ in Response(status: .unauthorized) }
      let answer = try await harness.validate("501")
      #expect(answer.code == "store_unavailable")
      #expect(answer.string("detail") == "The App Store Server API does not accept the server's key.")
      let line = try #require(
        harness.logs.all.first { $0.contains("a call of the App Store Server API failed") })
      #expect(line.contains(TestApps.climbing))
      #expect(line.contains("rejects the key"))
    }
  }

  @Test func `a constraint of the app's table is named when a premium status cannot be written`() async throws
  {
    try await withHarness { harness in
      let user = UUID()
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
      _ = try await harness.pool.query(
        "ALTER TABLE profiles ADD CONSTRAINT only_free CHECK (premium_product_id IS NULL)")
      #expect(try await harness.notify(harness.buy(token: user).notification.signedPayload).status == 200)
      let log = LogLines()
      let other = try await harness.service(configuration: TestApps.json, log: log)
      harness.clock.advance(seconds: 60)
      try await other.customers.profileRetry.run()
      await other.close()
      let line = try #require(log.all.first { $0.contains("a premium status could not be written") })
      for word in ["profiles", "23514", "only_free"] { #expect(line.contains(word)) }
    }
  }

  @Test func `the app of a notification that waits is named`() async throws {
    try await withHarness { harness in
      harness.store.put(
        StoreApp(bundleID: "com.example.unknown", appAppleID: 77, products: [.subscription("a.monthly")]))
      let sold = try harness.buy("a.monthly", bundleID: "com.example.unknown")
      let log = LogLines()
      let other = try await harness.service(configuration: TestApps.json, log: log)
      try await harness.serving(other) { address in
        let answer = try await harness.send(
          .post, "/api/v1/subscriptions/webhook",
          json: #"{"signedPayload": "\#(sold.notification.signedPayload)"}"#, to: address)
        #expect(answer.status == 200)
      }
      await other.close()
      let line = try #require(log.all.first { $0.contains("a notification cannot be processed yet") })
      #expect(line.contains("com.example.unknown"))
      #expect(line.contains("unknown_app"))
    }
  }
}

import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

@Suite struct ReplayTests {
  private static let secret = "com.example.climbing.secret"

  /// The test apps with one product that the first server does not know.
  private static let completed = TestApps.json.replacing(
    #""com.example.climbing.lifetime": { "tier": "premium" }"#,
    with: #""com.example.climbing.lifetime": { "tier": "premium" }, "\#(secret)": { "tier": "premium" }"#)

  private func sellSecret(_ harness: Harness) throws {
    var app = try #require(harness.store.app(TestApps.climbing))
    app.products[Self.secret] = .subscription(Self.secret)
    harness.store.put(app)
  }

  private func outcomes(_ harness: Harness) async throws -> [String] {
    try await harness.pool.query("SELECT outcome FROM notifications ORDER BY outcome")
      .map { try $0.decode("outcome", as: String.self) }
  }

  @Test func `a purchase of an unknown product grants access after a start with the product in the catalog`()
    async throws
  {
    try await withHarness { harness in
      try sellSecret(harness)
      let user = UUID()
      let bought = try harness.buy(Self.secret, token: user)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await outcomes(harness) == ["unknown_product"])
      #expect(try await harness.profileRow(of: user) == nil)
      let waiting = try await harness.pool.query(
        "SELECT why, notifications, notification_uuids, product_ids FROM support_waiting_notifications")
      #expect(try waiting[0].decode("why", as: String.self) == "unknown_product")
      #expect(try waiting[0].decode("notifications", as: Int.self) == 1)
      let uuid = try #require(UUID(uuidString: bought.notification.uuid))
      #expect(try waiting[0].decode("notification_uuids", as: [UUID].self) == [uuid])
      #expect(try waiting[0].decode("product_ids", as: [String].self) == [Self.secret])
      let sources = try await harness.pool.query("SELECT source FROM support_transactions").map {
        try $0.decode("source", as: String.self)
      }
      #expect(sources == ["webhook"])
      let still = try await harness.service.replay(uuid, by: #require(Harness.ada))
      #expect(!still.isProcessed)
      #expect(
        still.failure?.description
          == "unknown_product: the catalog of \(TestApps.climbing) has no product \(Self.secret); add it and reload"
      )

      let upgraded = try await harness.service(configuration: Self.completed)
      await upgraded.replayWaiting()
      #expect(try await harness.row(of: bought.originalTransactionID).tier == "premium")
      #expect(try await harness.profileRow(of: user)?.product == Self.secret)
      #expect(try await harness.pool.query("SELECT FROM support_waiting_notifications").count == 0)
      await upgraded.close()
    }
  }

  @Test func `all notifications of an unknown app are processed at the first start with the app configured`()
    async throws
  {
    try await withHarness { harness in
      harness.store.put(
        StoreApp(
          bundleID: "com.example.new", appAppleID: 77, products: [.subscription("com.example.new.monthly")]))
      var ids: [String] = []
      for _ in 0..<100 {
        let bought = try harness.store.buy(
          PurchaseRequest(bundleID: "com.example.new", productID: "com.example.new.monthly"))
        ids.append(bought.originalTransactionID)
        #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      }
      #expect(try await outcomes(harness) == Array(repeating: "unknown_app", count: 100))
      #expect(try await harness.count("subscriptions") == 0)

      let upgraded = try await harness.service(
        configuration: """
          { "apps": [ { "bundleID": "com.example.new", "appAppleID": 77, "name": "New", "customer": "device",
            "products": { "com.example.new.monthly": { "tier": "pro" } },
            "tiers": { "pro": { "rank": 1, "features": {} } } } ] }
          """)
      let result = try await upgraded.replay.runPending()
      #expect(result == (100, 100))
      #expect(try await outcomes(harness) == Array(repeating: "applied", count: 100))
      #expect(try await harness.row(of: ids[99]).tier == "pro")
      await upgraded.close()
    }
  }

  @Test func `a replay of a processed notification changes nothing and is recorded`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      let refunded = try harness.store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
        on: bought.originalTransactionID)
      #expect(try await harness.notify(refunded.notification.signedPayload).status == 200)
      let before = try await harness.row(of: bought.originalTransactionID)

      let uuid = try #require(UUID(uuidString: bought.notification.uuid))
      let result = try await harness.service.replay(uuid, by: #require(Harness.makeAuthor("ada", "to see")))
      #expect(result.outcome == "unchanged")
      #expect(result.isProcessed)
      #expect(try await harness.row(of: bought.originalTransactionID) == before)
      #expect(try await outcomes(harness) == ["applied", "applied"])
      let action = try await harness.pool.query(
        "SELECT by, reason FROM support_actions WHERE action = 'replay'")
      #expect(try action[0].decode("by", as: String.self) == "ada")
      #expect(try action[0].decode("reason", as: String.self) == "to see")
    }
  }

  @Test func `an unknown notification cannot be replayed`() async throws {
    try await withHarness { harness in
      await #expect(throws: ReplayFailure.notKept) {
        try await harness.service.replay(UUID(), by: #require(Harness.ada))
      }
    }
  }

  @Test func `a notification of an unknown type stays pending, and its transactions are processed`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      var payload = NotificationPayload(
        notificationType: NotificationType(rawValue: "SOMETHING_NEW"),
        notificationUUID: UUID().uuidString.lowercased(), signedDate: harness.clock.now)
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = bought.signedTransaction
      payload.data = data
      let signed = try harness.store.identity.authority.signer.sign(payload)
      #expect(try await harness.notify(signed).status == 200)
      #expect(try await harness.service.replay.runPending() == (1, 0))
      #expect(try await outcomes(harness) == ["unknown_type"])
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
    }
  }
}

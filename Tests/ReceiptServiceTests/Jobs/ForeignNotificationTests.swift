import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

/// Notifications that Apple signed for apps that are not configured. Any developer can have them sent to the webhook.
@Suite struct ForeignNotificationTests {
  private static let foreign = "com.example.new"

  @Test
  func `notifications of unknown apps are deleted after 30 days, and those of configured apps stay`()
    async throws
  {
    // The server's role has no DELETE privilege, and no retention is configured.
    try await withHarness(role: "receiptd_app") { harness in
      harness.put(Self.foreign)
      let now = harness.clock.now
      harness.clock.set(now - 31 * 86_400)
      _ = try await harness.tells(of: Self.foreign)
      let unknownProduct = try harness.transaction { $0.productId = "com.example.climbing.unheard" }
      var kept = [
        try await harness.tells(appAppleID: 7), try await harness.tells(transaction: unknownProduct),
      ]
      harness.clock.set(now - 29 * 86_400)
      kept.append(try await harness.tells(of: Self.foreign))
      harness.clock.set(now)
      #expect(try await harness.count("notifications WHERE processed_at IS NULL") == 4)

      #expect(try await harness.service.retentionJob.run() == 1)
      let left = try await harness.pool.query("SELECT notification_uuid FROM notifications")
        .map { try $0.decode("notification_uuid", as: UUID.self) }
      #expect(Set(left) == Set(kept))
      #expect(try await harness.service.retentionJob.run() == 0)
    }
  }

  @Test func `one retention run deletes 5,000 old notifications of unknown apps`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      try await harness.keepForeign(5_000, daysAgo: 40)
      try await harness.keepForeign(10, daysAgo: 20)
      #expect(try await harness.service.retentionJob.run() == 5_000)
      #expect(try await harness.count("notifications") == 10)
    }
  }

  @Test func `a start replays waiting notifications of a newly configured app, and of no other unknown app`()
    async throws
  {
    try await withHarness { harness in
      let other = "com.example.other"
      harness.put(Self.foreign)
      harness.put(other)
      for app in [Self.foreign, other] {
        for _ in 0..<70 { _ = try await harness.tells(of: app) }
      }
      let upgraded = try await harness.service(
        configuration: """
          { "apps": [ { "bundleID": "\(Self.foreign)", "appAppleID": 77, "name": "New", "customer": "device",
            "products": { "com.example.new.monthly": { "tier": "pro" } },
            "tiers": { "pro": { "rank": 1, "features": {} } } } ] }
          """)
      let result = try await upgraded.replay.runPending()
      #expect(result == (70, 70))
      await upgraded.close()
      let untouched = try await harness.count(
        "notifications WHERE replayed_at IS NULL AND bundle_id = '\(other)'")
      #expect(untouched == 70)
      #expect(try await harness.count("notifications WHERE outcome = 'applied'") == 70)
    }
  }

  @Test func `a notification of an unknown app with an invalid part has the outcome unknown_app`()
    async throws
  {
    try await withHarness { harness in
      harness.put(Self.foreign)
      let bought = try harness.buy("com.example.new.monthly", bundleID: Self.foreign)
      #expect(
        try await harness.notify(harness.notification(UUID(), of: bought, .signature)).status == 200)
      #expect(try await harness.count("notifications WHERE outcome = 'unknown_app'") == 1)
    }
  }
}

extension Harness {
  /// Adds another developer's app to the store.
  fileprivate func put(_ bundleID: String) {
    store.put(
      StoreApp(bundleID: bundleID, appAppleID: 77, products: [.subscription("\(bundleID).monthly")]))
  }

  /// Buys in another developer's app and sends the notification to receiptd.
  fileprivate func tells(of bundleID: String) async throws -> UUID {
    let bought = try buy("\(bundleID).monthly", bundleID: bundleID)
    #expect(try await notify(bought.notification.signedPayload).status == 200)
    return try #require(UUID(uuidString: bought.notification.uuid))
  }

  /// A notification of a configured app that waits, because of its app id or of a transaction in it.
  fileprivate func tells(
    appAppleID: Int64 = 1_500_000_001, transaction: TransactionInfo? = nil
  ) async throws -> UUID {
    let uuid = UUID()
    var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
    data.appAppleId = appAppleID
    data.signedTransactionInfo = try transaction.map(sign)
    var payload = NotificationPayload(
      notificationType: .didRenew, notificationUUID: uuid.uuidString.lowercased(), signedDate: clock.now)
    payload.data = data
    #expect(try await notify(store.identity.authority.signer.sign(payload)).status == 200)
    return uuid
  }

  /// Inserts rows like those of notifications of unknown apps.
  fileprivate func keepForeign(_ count: Int, daysAgo: Int) async throws {
    _ = try await pool.query(
      "INSERT INTO jws_headers (header, sha256) VALUES ('h', 'h') ON CONFLICT DO NOTHING")
    _ = try await pool.query(
      """
      INSERT INTO notifications (notification_uuid, type, bundle_id, signed_at, received_at, outcome,
        envelope_header, envelope_claims, envelope_signature)
      SELECT gen_random_uuid(), 'TEST', 'com.example.flood' || n % 3, at, at, 'unknown_app',
        (SELECT max(id) FROM jws_headers), '{}', ''
      FROM generate_series(1, \(count)) AS n, (SELECT now() - make_interval(days => \(daysAgo)::bigint::integer) AS at) AS past
      """)
  }
}

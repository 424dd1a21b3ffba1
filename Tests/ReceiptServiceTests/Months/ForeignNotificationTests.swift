import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// Notifications that Apple signed for apps that are not configured: any developer can have them sent here.
@Suite struct ForeignNotificationTests {
  private static let foreign = "com.example.new"

  @Test(arguments: [false, true])
  func `notifications of a foreign app go after 30 days, and what waits for one of our apps stays`(
    isDivided: Bool
  ) async throws {
    // With a server that may not delete by itself, and no setting that limits what is kept.
    try await withHarness(role: "receiptd_app") { harness in
      if isDivided { try await harness.pool.divide(monthsAgo: 24) }
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

      #expect(try await harness.service.monthsJob.forget() == 1)
      let left = try await harness.pool.query("SELECT notification_uuid FROM notifications")
        .map { try $0.decode(0, as: UUID.self) }
      #expect(Set(left) == Set(kept))
      #expect(try await harness.service.monthsJob.forget() == 0)
    }
  }

  @Test(arguments: [false, true])
  func `however many notifications of foreign apps there are, all that are old go, some at a time`(
    isDivided: Bool
  ) async throws {
    try await withHarness(role: "receiptd_app") { harness in
      if isDivided { try await harness.pool.divide(monthsAgo: 24) }
      try await harness.keepForeign(5_000, daysAgo: 40)
      try await harness.keepForeign(10, daysAgo: 20)
      #expect(try await harness.service.monthsJob.forget() == 5_000)
      #expect(try await harness.count("notifications") == 10)
    }
  }

  @Test func `a start tries notifications of an app that has become known, and of no other unknown app`()
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
      let result = try await upgraded.replay.runWaiting()
      #expect(result == (70, 70))
      await upgraded.close()
      let untouched = try await harness.count(
        "notifications WHERE replayed_at IS NULL AND bundle_id = '\(other)'")
      #expect(untouched == 70)
      #expect(try await harness.count("notifications WHERE outcome = 'applied'") == 70)
    }
  }

  @Test func `a notification of a foreign app with a part that fails is one of an unknown app`() async throws
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
  /// The store sells something of another developer's app.
  fileprivate func put(_ bundleID: String) {
    store.put(
      StoreApp(bundleID: bundleID, appAppleID: 77, products: [.subscription("\(bundleID).monthly")]))
  }

  /// A purchase in another developer's app, of which receiptd is told.
  fileprivate func tells(of bundleID: String) async throws -> UUID {
    let bought = try buy("\(bundleID).monthly", bundleID: bundleID)
    #expect(try await notify(bought.notification.signedPayload).status == 200)
    return try #require(UUID(uuidString: bought.notification.uuid))
  }

  /// A notification of an app of ours that waits, because of its number or of a transaction in it.
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

  /// Rows as notifications of foreign apps leave them.
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

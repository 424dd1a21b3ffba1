import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService
@testable import Requests

/// The daily limit of notifications of an unknown app.
@Suite struct ForeignLimitTests {
  @Test
  func `notifications of an unknown app beyond its daily limit get 429, and those of other apps are stored`()
    async throws
  {
    let limited = ["RATE_LIMIT": "2", "TRUSTED_PROXIES": "127.0.0.0/8"]
    try await withHarness(environment: limited) { harness in
      func arrives(_ bundleID: String) async throws -> Int {
        harness.store.put(
          StoreApp(bundleID: bundleID, appAppleID: 77, products: [.subscription("\(bundleID).monthly")]))
        let bought = try harness.buy("\(bundleID).monthly", bundleID: bundleID)
        return try await harness.notify(bought.notification.signedPayload).status
      }
      let (loud, quiet) = ("com.example.loud", "com.example.quiet")
      #expect(try await arrives(loud) == 200)
      for _ in 1..<ClientRateLimits.foreignPerDay { try harness.service.rateLimits.admitForeign(loud) }
      #expect(try await arrives(loud) == 429)
      #expect(try await arrives(quiet) == 200)
      #expect(try await harness.count("notifications WHERE bundle_id = '\(loud)'") == 1)
      #expect(try await harness.count("notifications WHERE bundle_id = '\(quiet)'") == 1)
      // Notifications of configured apps have no such limit.
      for _ in 0..<3 {
        #expect(try await harness.notify(harness.buy().notification.signedPayload).status == 200)
      }
      #expect(try await harness.count("notifications WHERE bundle_id = '\(TestApps.climbing)'") == 3)
      harness.clock.advance(days: 1)
      #expect(try await arrives(loud) == 200)
      #expect(try await harness.count("notifications WHERE bundle_id = '\(loud)'") == 2)
    }
  }

  @Test func `a start finds waiting notifications by index and reads no row of an unknown app`()
    async throws
  {
    try await withHarness { harness in
      _ = try await harness.pool.query("INSERT INTO jws_headers (header, sha256) VALUES ('h', 'h')")
      _ = try await harness.pool.query(
        """
        INSERT INTO notifications (notification_uuid, type, bundle_id, signed_at, received_at, outcome,
          envelope_header, envelope_claims, envelope_signature)
        SELECT gen_random_uuid(), 'TEST', 'com.example.app' || n % 100, now(), now(),
          CASE n WHEN 1 THEN 'unknown_product' ELSE 'unknown_app' END, (SELECT max(id) FROM jws_headers), '{}', ''
        FROM generate_series(1, 5000) AS n
        """)
      _ = try await harness.pool.query("ANALYZE notifications")
      let queries = [
        NotificationRows.pending(.afterStart, after: .start, limit: 64),
        NotificationRows.pending(.failed, after: .start, limit: 64),
        NotificationRows.pending(forApp: "com.example.app7", after: .start, limit: 64),
        NotificationRows.pending(forApp: TestApps.climbing, after: .start, limit: 64),
      ]
      let (found, read) = try await harness.pool.withTransaction { connection in
        let found = try await connection.pipeline(queries).map(\.count)
        let read = try await connection.query(
          """
          SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS read FROM pg_stat_xact_user_tables
          WHERE relname = 'notifications'
          """)[0].decode("read", as: Int.self)
        return (found, read)
      }
      #expect(found == [1, 0, 50, 0])
      #expect(read <= 60)
    }
  }
}

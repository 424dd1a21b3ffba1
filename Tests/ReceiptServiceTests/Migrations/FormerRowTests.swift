import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// Rows of `subscriptions` that the app's former server wrote.
@Suite struct FormerRowTests {
  /// Adds a row as ScreenTime Rewards' former server does.
  private func addRow(of id: String, device: String, to harness: Harness) async throws {
    _ = try await harness.pool.query(
      """
      INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, tier, status,
        purchase_date, expiry_date, auto_renew_enabled, last_validated_at)
      VALUES (\(device), \(id), \(id), \(ScreenTime.family), 'family', 'active', now(), now() + interval '30 days', true,
        now() - interval '1 day')
      """)
  }

  private func owner(of id: String, _ harness: Harness) async throws -> [String?] {
    let row = try await harness.pool.query(
      "SELECT device_id, owned_because, bundle_id FROM subscriptions WHERE original_transaction_id = \(id)")[
        0]
    return [try row.decode("device_id"), try row.decode("owned_because"), try row.decode("bundle_id")]
  }

  @Test func `the device stays the owner when the first notification comes`() async throws {
    try await LiveTables.withService { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let id = bought.originalTransactionID
      try await addRow(of: id, device: "OLD-PHONE", to: harness)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await owner(of: id, harness) == ["OLD-PHONE", "first_claim", ScreenTime.bundleID])
      #expect(try await harness.entitlements("OLD-PHONE").string("entitlements.tier") == "family")
      // The time of the former server's check stays, too.
      let checked = try await harness.pool.query(
        "SELECT last_validated_at < now() - interval '1 hour' AS is_kept FROM subscriptions WHERE original_transaction_id = \(id)"
      )
      #expect(try checked[0].decode("is_kept", as: Bool.self))
      // A renewal changes nothing about that.
      try await harness.happens(.renew, to: id)
      #expect(try await owner(of: id, harness).first == "OLD-PHONE")
    }
  }

  @Test func `the device's own proof makes it the owner`() async throws {
    try await LiveTables.withService { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let id = bought.originalTransactionID
      try await addRow(of: id, device: "OLD-PHONE", to: harness)
      let answer = try await harness.device("OLD-PHONE", shows: bought)
      #expect(answer.status == 200)
      #expect(answer.string("entitlements.tier") == "family")
      #expect(try await owner(of: id, harness).first == "OLD-PHONE")
    }
  }

  @Test func `a row without a device gets the first one that proves it`() async throws {
    try await LiveTables.withService { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let id = bought.originalTransactionID
      try await addRow(of: id, device: "", to: harness)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await owner(of: id, harness).first == .some(nil))
      #expect(try await harness.device("NEW-PHONE", shows: bought).status == 200)
      #expect(try await owner(of: id, harness).first == "NEW-PHONE")
    }
  }

  @Test func `sweep, jobs, reports, views and metrics pass over rows without facts`() async throws {
    try await LiveTables.withService { harness in
      #expect(try await harness.service.sweep.run() == 0)
      let entitlements = try await harness.entitlements("ABC123-DEF456")
      #expect(entitlements.bool("entitlements.isAccessGranted") == false)
      let seen = try await harness.pool.query(
        """
        SELECT device_id, status, has_access, is_counted FROM support_subscriptions ORDER BY device_id
        """)
      #expect(
        try seen.map { try $0.decode("status", as: String.self) } == ["active", "active", "grace", "expired"])
      #expect(
        try seen.allSatisfy {
          try !$0.decode("has_access", as: Bool.self) && !$0.decode("is_counted", as: Bool.self)
        })
      let customers = try await harness.pool.query("SELECT has_access FROM support_customers")
      #expect(
        try customers.map { try $0.decode("has_access", as: Bool.self) } == [false, false, false, false])
      _ = try await harness.pool.query("SELECT * FROM support_timeline")
      let support = try await harness.send(
        .get, "/support/v1/customer/ABC123-DEF456", token: Harness.supportToken, to: harness.adminAddress)
      #expect(support.status == 404)
      let metrics = try await harness.send(.get, "/metrics", to: harness.adminAddress)
      #expect(metrics.status == 200)
      let rows = try await harness.pool.query("SELECT 1 FROM subscriptions WHERE bundle_id IS NULL")
      #expect(rows.count == 4)
    }
  }
}

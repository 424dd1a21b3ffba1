import Configuration
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Console
@testable import ReceiptService

/// The plans of the console's lists, with the statistics of 20,000 subscriptions.
@Suite struct ConsoleListPlanTests {
  @Test func `each list reads an index, however rare its rows are among the others`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await loadSubscriptions(20_000, into: database)
      try await database.withPool { pool in try await Self.check(pool) }
    }
  }

  private static func check(_ pool: PostgresPool) async throws {
    for statement in [
      """
      UPDATE subscriptions SET phase_starts = ARRAY[NULL, expiry_date, expiry_date + interval '60 days'],
        phase_statuses = '{active,expired,expired}', phase_store_statuses = '{active,billingRetry,expired}',
        next_change_at = expiry_date + interval '60 days'
      WHERE expiry_date BETWEEN now() - interval '50 days' AND now() - interval '1 day' AND revoked_at IS NULL
        AND original_transaction_id LIKE '%50'
      """,
      """
      UPDATE subscriptions SET auto_renew_enabled = false WHERE expiry_date > now()
        AND original_transaction_id LIKE '%110'
      """,
      """
      UPDATE subscriptions SET user_id = NULL, device_id = NULL WHERE expiry_date > now()
        AND original_transaction_id LIKE '%310'
      """,
      """
      INSERT INTO renewals (original_transaction_id, environment, product_id, is_in_billing_retry, renewal_date,
        signed_at, other_claims)
      SELECT original_transaction_id, environment, product_id, false, expiry_date, signed_at,
        jsonb_build_object('priceIncreaseStatus', CASE WHEN original_transaction_id LIKE '%510' THEN 0 ELSE 1 END)
      FROM subscriptions
      """,
    ] {
      _ = try await pool.query(Query(unescaped: statement))
    }
    _ = try await pool.query("ANALYZE subscriptions")
    _ = try await pool.query("ANALYZE renewals")
    let indexes = [
      "billing": "subscriptions_billing_trouble_idx", "cancelled": "subscriptions_cancelled_idx",
      "price": "renewals_price_increase_idx", "without-owner": "subscriptions_unowned_idx",
      "refunded": "transactions_revoked_at_idx", "trials": "trials_ends_at_idx",
      "grants": "grants_ending_idx",
    ]
    for kind in ListKind.all(try AppCatalog(json: Data(TestApps.json.utf8), named: "test")) {
      for (app, days) in [(nil, kind.days), (nil, 366), ("com.swiftclimb.app", 366)] as [(String?, Int)] {
        let filter = ListKind.Filter(app: app, now: Date(), days: days, limit: 201)
        let plan = try await pool.query("EXPLAIN \(kind.rows(filter))").map {
          try $0.decode(0, as: String.self)
        }.joined(separator: "\n")
        let about: Comment = "\(kind.name), \(app ?? "all apps"), \(days) days: \(plan)"
        // Where very many price increases wait, the list reads 20,000 subscriptions, which are all of this table.
        let tables = ["transactions", "renewals", "trials"] + (kind.name == "price" ? [] : ["subscriptions"])
        for table in tables {
          #expect(!plan.contains("Seq Scan on \(table)"), about)
        }
        // The app has no trials, so their index by app may be read.
        if let index = indexes[kind.name], app == nil || kind.name != "trials" {
          #expect(plan.contains(index), about)
        }
      }
    }
  }
}

import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

/// The view of all that waits for work.
@Suite struct SupportWorkTests {
  private struct Line: Equatable {
    var queue: String
    var kind: String
    var app: String?
    var customer: String?
    var purchase: String?
    var state: String
    var attempts: Int?
    var error: String?
  }

  private static func lines(_ harness: Harness) async throws -> [Line] {
    try await harness.pool.withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE receiptd_support")
      return try await connection.query("SELECT * FROM support_work ORDER BY queue, kind, state").map { row in
        Line(
          queue: try row.decode("queue"), kind: try row.decode("kind"), app: try row.decode("bundle_id"),
          customer: try row.decode("customer"), purchase: try row.decode("original_transaction_id"),
          state: try row.decode("state"), attempts: try row.decode("attempts"),
          error: try row.decode("last_error"))
      }
    }
  }

  @Test func `support sees each kind of open work once, with its customer, and none that has ended`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let customer = user.uuidString.lowercased()
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      let now = harness.clock.now
      for statement: Query in [
        """
        INSERT INTO outbox (destination, key, payload, attempts, last_error)
        VALUES ('profiles', \(customer), '{}', 2, 'profiles: refused (P0001)')
        """,
        """
        INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, original_transaction_id, product_id,
          days, reason_code, by, reason, requested_at, completed_at)
        SELECT gen_random_uuid(), \(TestApps.climbing), 'Production', purchase, 'monthly', 5, 1, 'ada', 'outage', \(now), ended
        FROM (VALUES (\(id), NULL::timestamptz), (NULL, NULL), (NULL, now())) AS asked (purchase, ended)
        """,
        """
        INSERT INTO client_writes (table_name, user_id, original_transaction_id, mode, attempts, outcome, next_attempt_at)
        VALUES ('profiles', \(user), '77', 'observe', 1, 'unknown', \(now)), ('profiles', \(user), '78', 'observe', 1, 'bound', NULL)
        """,
        """
        UPDATE subscriptions SET old_proof_marked_at = \(now), old_proof_due_at = \(now), old_proof_signed_at = \(now)
        """,
      ] {
        _ = try await harness.pool.query(statement)
      }
      let app = TestApps.climbing
      #expect(
        try await Self.lines(harness) == [
          Line(
            queue: "client_writes", kind: "client_claim", customer: customer, purchase: "77",
            state: "waiting", attempts: 1, error: "the App Store does not know the transaction"),
          Line(
            queue: "outbox", kind: "profiles", customer: customer, state: "waiting", attempts: 2,
            error: "profiles: refused (P0001)"),
          Line(
            queue: "renewal_extensions", kind: "renewal_extension", app: app, customer: customer,
            purchase: id,
            state: "stopped", attempts: 0),
          Line(
            queue: "renewal_extensions", kind: "renewal_extension", app: app, state: "waiting", attempts: 0),
          Line(
            queue: "store_calls", kind: "consumption", app: app, customer: customer, purchase: id,
            state: "waiting", attempts: 0, error: "the customer has not consented"),
          Line(
            queue: "subscriptions", kind: "old_proof", app: app, customer: customer, purchase: id,
            state: "waiting"),
        ])

      // The gauges tell the same.
      try await harness.service.databaseGauges.read()
      let scrape = try await harness.scrape()
      for (kind, app) in [("consumption", app), ("old_proof", app), ("client_claim", ""), ("profiles", "")] {
        #expect(
          scrape["receiptd_work_rows{app=\"\(app)\",kind=\"\(kind)\",state=\"waiting\"}"] == 1, "\(kind)")
      }
      let waits = #"receiptd_work_attempts_total{kind="consumption",outcome="waits"}"#
      #expect(scrape[waits] == 1)

      _ = try await harness.pool.query("UPDATE store_calls SET settled_at = now(), outcome = 'sent'")
      #expect(try await !Self.lines(harness).contains { $0.queue == "store_calls" })
    }
  }
}

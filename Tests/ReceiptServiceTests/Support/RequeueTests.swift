import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import Deliveries
@testable import ReceiptService

/// `requeue` of the rows of every queue: those that wait, and those that were given up and can still succeed.
@Suite struct RequeueTests {
  private static func requeue(
    _ rows: String..., in harness: Harness, isDryRun: Bool = false
  ) async throws -> RequeueResult {
    try await harness.service.perform(
      RequeueRequest(rows: rows.compactMap(WorkRow.init)), by: #require(Harness.ada), isDryRun: isDryRun)
  }

  private static func refusal(_ row: String, in harness: Harness) async throws -> SupportRefusal? {
    do {
      _ = try await requeue(row, in: harness)
      return nil
    } catch let refusal as SupportRefusal {
      return refusal
    }
  }

  /// The number of rows of a table and a condition.
  private static func count(_ rows: Query, _ harness: Harness) async throws -> Int {
    try await harness.pool.query("SELECT count(*) AS rows FROM \(rows)")[0].decode("rows")
  }

  private static func id(_ table: Query, _ harness: Harness) async throws -> String {
    try await harness.pool.query("SELECT id::text AS id FROM \(table)")[0].decode("id")
  }

  @Test func `a call that the App Store refused is made again until its deadline, and no later`() async throws
  {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let (_, bought) = try await harness.customer()
      try await harness.requestsRefund(of: bought)
      let now = harness.clock.now
      let row = "store_calls:\(try await Self.id("store_calls", harness))"
      _ = try await harness.pool.query(
        """
        UPDATE store_calls SET settled_at = \(now), outcome = 'refused', body = '{}', preferred_by = 'ada', attempts = 4,
          last_error = '4000000: a fault', deadline = \(now + 3_600)
        """)
      let listed = try await harness.pool.query(
        "SELECT state, next_attempt_at FROM support_work WHERE queue = 'store_calls'")
      #expect(try listed.map { try $0.decode("state", as: String.self) } == ["dead"])
      #expect(try listed[0].decode("next_attempt_at", as: Date?.self) == nil)

      let preview = try await Self.requeue(row, in: harness, isDryRun: true)
      #expect(preview.description == "1 row requeued")
      #expect(try await harness.count("store_calls WHERE settled_at IS NULL") == 0)
      #expect(try await Self.requeue(row, in: harness).requeued == 1)
      // It is decided anew, and due.
      #expect(
        try await Self.count(
          "store_calls WHERE settled_at IS NULL AND outcome IS NULL AND body IS NULL AND preferred_by IS NULL AND attempts = 0 AND next_attempt_at = \(now)",
          harness) == 1)
      let record = try await harness.pool.query(
        "SELECT bundle_id, original_transaction_id, details->>'queue' AS queue FROM support_actions WHERE action = 'requeue'"
      )
      #expect(record.count == 1)
      #expect(
        try record[0].decode("original_transaction_id", as: String.self) == bought.originalTransactionID)
      #expect(try record[0].decode("queue", as: String.self) == "store_calls")
      try await harness.service.deliveries.storeCalls.run()

      // One whose end is not known keeps what the App Store may have.
      _ = try await harness.pool.query(
        "UPDATE store_calls SET settled_at = \(now), outcome = 'unknown', body = '{\"a\": 1}'")
      #expect(try await Self.requeue(row, in: harness).requeued == 1)
      #expect(try await harness.count("store_calls WHERE settled_at IS NULL AND body IS NOT NULL") == 1)

      // A call of unknown end whose body is not stored is refused: a new body could differ from the one that Apple has.
      for change: Query in [
        "outcome = 'unknown', body = NULL",
        "outcome = 'sent'", "outcome = 'no_consent'", "outcome = 'refused', deadline = \(now - 1)",
      ] {
        _ = try await harness.pool.query("UPDATE store_calls SET settled_at = \(now), \(change)")
        let refusal = try #require(await Self.refusal(row, in: harness))
        #expect(refusal.kind == .notFound && refusal.description.contains("before its deadline"))
      }
      // Another call has told the App Store already.
      _ = try await harness.pool.query(
        """
        INSERT INTO store_calls (kind, key, bundle_id, environment, original_transaction_id, transaction_id, asked_at, deadline,
          next_attempt_at, settled_at, outcome)
        SELECT kind, 'again', bundle_id, environment, original_transaction_id, transaction_id, asked_at, \(now + 3_600)::timestamptz,
          next_attempt_at, settled_at, 'sent' FROM store_calls;
        """)
      _ = try await harness.pool.query(
        "UPDATE store_calls SET outcome = 'refused', deadline = \(now + 3_600) WHERE key <> 'again'")
      #expect(try await Self.refusal(row, in: harness)?.kind == .notFound)
    }
  }

  @Test func `extensions of a product, claims and old proofs are due again, and what is decided stays`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let now = harness.clock.now
      for statement: Query in [
        """
        INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, original_transaction_id, product_id,
          days, reason_code, by, reason, requested_at, completed_at, last_error, next_attempt_at)
        SELECT gen_random_uuid(), \(TestApps.climbing), 'Production', purchase, product, 5, 1, 'ada', 'outage', \(now), ended, error, NULL
        FROM (VALUES (\(id), 'one', NULL::timestamptz, NULL), (NULL, 'refused', \(now)::timestamptz, 'a fault'),
          (NULL, 'done', \(now)::timestamptz, NULL)) AS asked (purchase, product, ended, error)
        """,
        """
        INSERT INTO client_writes (table_name, user_id, original_transaction_id, mode, attempts, outcome, next_attempt_at)
        VALUES ('profiles', \(user), '77', 'observe', 6, 'unknown', NULL), ('profiles', \(user), '78', 'observe', 1, 'bound', NULL)
        """,
        """
        UPDATE subscriptions SET old_proof_marked_at = \(now), old_proof_due_at = \(now + 86_400), old_proof_signed_at = \(now)
        """,
      ] {
        _ = try await harness.pool.query(statement)
      }
      func key(_ query: Query) async throws -> String { try await harness.pool.query(query)[0].decode("key") }
      func extensionRow(_ product: String) async throws -> String {
        "renewal_extensions:"
          + (try await key(
            "SELECT request_identifier::text AS key FROM renewal_extensions WHERE product_id = \(product)"))
      }
      let claim =
        "client_writes:"
        + (try await key("SELECT id::text AS key FROM client_writes WHERE outcome = 'unknown'"))
      let bound =
        "client_writes:"
        + (try await key("SELECT id::text AS key FROM client_writes WHERE outcome = 'bound'"))
      let result = try await Self.requeue(
        extensionRow("refused"), claim, "subscriptions:\(id)", bound, claim, in: harness)
      #expect(result.requeued == 3 && result.refused.count == 1)
      #expect(result.refused[0].contains("'\(bound)' is not queued again"))
      #expect(
        try await Self.count(
          "renewal_extensions WHERE product_id = 'refused' AND completed_at IS NULL AND next_attempt_at = \(now)",
          harness) == 1)
      #expect(
        try await Self.count(
          "client_writes WHERE outcome = 'unknown' AND next_attempt_at = \(now) AND attempts = 0", harness)
          == 1)
      #expect(
        try await harness.count("client_writes WHERE outcome = 'bound' AND next_attempt_at IS NULL") == 1)
      #expect(try await Self.count("subscriptions WHERE old_proof_due_at = \(now)", harness) == 1)
      // A claim may name another customer's purchase, so its record names none.
      let purchases = try await harness.pool.query(
        "SELECT coalesce(original_transaction_id, '') AS id FROM support_actions WHERE action = 'requeue' ORDER BY 1"
      ).map { try $0.decode("id", as: String.self) }
      #expect(purchases == ["", "", id])

      for row in [
        try await extensionRow("one"), try await extensionRow("done"), "subscriptions:nothing",
        "renewal_extensions:7", "subscriptions:\u{0}",
        "store_calls:x", "unknown:7", "7",
      ] {
        #expect(try await Self.refusal(row, in: harness)?.kind == .notFound, "\(row)")
      }
    }
  }

  @Test
  func
    `an extension is not opened beside another one of its product, after one that was accepted, or after a week`()
    async throws
  {
    try await withHarness { harness in
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, product_id, days, reason_code, by, reason,
          requested_at, completed_at, last_error)
        VALUES (gen_random_uuid(), \(TestApps.climbing), 'Production', 'monthly', 5, 1, 'ada', 'outage', \(now), \(now), 'a fault'),
          (gen_random_uuid(), \(TestApps.climbing), 'Production', 'monthly', 5, 1, 'ada', 'outage', \(now), NULL, NULL)
        """)
      let row = try await harness.pool.query(
        "SELECT request_identifier::text AS id FROM renewal_extensions WHERE completed_at IS NOT NULL")[0]
        .decode("id", as: String.self)
      #expect(try await Self.refusal("renewal_extensions:\(row)", in: harness)?.kind == .notFound)
      // The same extension was asked for again, and the App Store carried it out.
      _ = try await harness.pool.query(
        """
        UPDATE renewal_extensions SET accepted_at = \(now), completed_at = \(now), succeeded = 3, failed = 0
        WHERE completed_at IS NULL
        """)
      #expect(try await Self.refusal("renewal_extensions:\(row)", in: harness)?.kind == .notFound)
      _ = try await harness.pool.query("DELETE FROM renewal_extensions WHERE succeeded = 3")
      harness.clock.advance(seconds: 7 * 86_400 + 1)
      #expect(try await Self.refusal("renewal_extensions:\(row)", in: harness)?.kind == .notFound)
    }
  }

  @Test func `the support API takes rows of any queue, and says which were not queued again`() async throws {
    try await withHarness { harness in
      let token = try await harness.add("Ada", .lead)
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
        VALUES ('cloudkit', 'phone', \(TestApps.family), '', '{}', now(), 'BAD_REQUEST')
        """)
      let row = "outbox:\(try await Self.id("outbox", harness))"
      // Another spelling of the number would be a second row of the same request.
      #expect(try await Self.refusal("outbox:0\(try await Self.id("outbox", harness))", in: harness) != nil)
      let answer = try await harness.support("requeue", ["rows": [row, "store_calls:9"]], token: token)
      #expect(answer.status == 200)
      #expect(answer["requeued"] as? Int == 1)
      #expect(answer.text.contains(row) && answer.text.contains("store_calls:9"))
      for members in [["rows": []], ["rows": [row], "bundleID": TestApps.family], ["rows": [":"]]]
        as [[String: Any]]
      {
        #expect(try await harness.support("requeue", members, token: token).status == 400)
      }
    }
  }
}

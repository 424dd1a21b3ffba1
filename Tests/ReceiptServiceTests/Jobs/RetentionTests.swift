import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

/// Retention deletes old rows and no others.
@Suite struct RetentionTests {
  private static let kept = ["NOTIFICATION_RETENTION_MONTHS": "12", "TRANSACTION_RETENTION_MONTHS": "12"]

  /// Runs `body` with a server role without DELETE privilege.
  private func withRetention(_ body: (Harness) async throws -> Void) async throws {
    try await withHarness(environment: Self.kept, role: "receiptd_app") { try await body($0) }
  }

  @Test func `retention deletes old notifications, except those that wait for a replay`() async throws {
    try await withRetention { harness in
      let now = harness.clock.now
      // Twelve months are kept besides the current one.
      let first = try await harness.pool.query(
        "SELECT date_trunc('month', now(), 'UTC') - interval '12 months' AS first")[0]
        .decode("first", as: Date.self)
      let strange = "com.example.climbing.unheard"
      var app = try #require(harness.store.app(TestApps.climbing))
      app.products[strange] = .subscription(strange)
      harness.store.put(app)
      var kept: Set<String> = []
      var gone: [String] = []
      // In the order of time, because the store refuses to sign with an earlier date.
      for days in [-700.0, -90, -62, -40, -39, -35, -3, -1, 0, 1, 3, 35, 200] {
        harness.clock.set(first + days * 86_400 + (days >= 0 ? 60 : -60))
        // One notification has an unknown product and waits for a replay.
        let waits = days == -40
        let bought = try waits ? harness.buy(strange) : harness.buy()
        try await harness.arrives(bought)
        if days >= 0 || waits {
          kept.insert(bought.notification.uuid)
        } else {
          gone.append(bought.notification.uuid)
        }
      }
      harness.clock.set(now)

      let transactions = try await harness.count("transactions")
      for _ in 0..<2 { try await harness.service.retentionJob.run() }
      let left = try await harness.pool.query("SELECT notification_uuid::text FROM notifications")
        .map { try $0.decode("notification_uuid", as: String.self) }
      #expect(Set(left) == kept)
      #expect(try await harness.count("transactions") == transactions)
      // A deleted notification that arrives again is new.
      let again = await harness.store.deliver(gone[3])
      #expect(again?.outcome.status == 200)
      #expect(try await harness.count("notifications") == kept.count + 1)
    }
  }

  @Test
  func `retention deletes old periods of ended subscriptions, and a late refund has the same effect`()
    async throws
  {
    try await withRetention { harness in
      let now = harness.clock.now
      func at(monthsAgo months: Double) { harness.clock.set(now - months * 30.5 * 86_400) }
      // The store refuses to sign with an earlier date, so ended subscriptions come first.
      at(monthsAgo: 30)
      let over = try await harness.subscription(renewals: 5)
      at(monthsAgo: 29)
      let refunded = try await harness.subscription(renewals: 2, ends: false)
      try await harness.happens(.refundLatest, to: refunded.id)
      // Only the first of three transactions has the customer.
      at(monthsAgo: 28)
      let named = try await harness.subscription(renewals: 2)
      let unnamed = Array(named.periods.dropFirst())
      _ = try await harness.pool.query(
        "UPDATE transactions SET app_account_token = NULL WHERE transaction_id = ANY(\(unnamed))")
      at(monthsAgo: 28)
      let lifetime = try harness.buy(TestApps.lifetime, token: UUID())
      try await harness.arrives(lifetime)
      at(monthsAgo: 28)
      let tooFresh = try await harness.subscription(renewals: 20)
      at(monthsAgo: 29)
      let runs = try await harness.subscription(renewals: 29, ends: false)
      harness.clock.set(now)
      _ = try await harness.service.sweep.run()

      func left(_ id: String) async throws -> [String] {
        try await harness.pool.query(
          "SELECT transaction_id FROM transactions WHERE original_transaction_id = \(id) ORDER BY purchase_date"
        ).map { try $0.decode("transaction_id", as: String.self) }
      }
      let before = try await harness.row(of: over.id)
      #expect(before.status == "expired")
      for _ in 0..<2 { try await harness.service.retentionJob.run() }
      #expect(try await left(over.id) == over.periods.suffix(1))
      #expect(try await left(tooFresh.id) == tooFresh.periods)
      #expect(try await left(runs.id) == runs.periods)
      #expect(try await left(lifetime.originalTransactionID) == [lifetime.transactionID])
      #expect(try await left(refunded.id) == refunded.periods.suffix(1))
      #expect(try await left(named.id) == [named.periods[0], named.periods[2]])

      // A refund of a deleted period is recorded and does not change the row.
      try await harness.happens(
        .refund(transactionID: over.periods[2], percentage: 100, reason: .refundedForOtherReason), to: over.id
      )
      #expect(try await harness.row(of: over.id) == before)
      #expect(try await left(over.id) == [over.periods[2], over.periods[5]])
      let refunds = try await harness.pool.query(
        "SELECT reference FROM support_timeline WHERE original_transaction_id = \(over.id) AND event = 'revoked'"
      )
      #expect(try refunds.map { try $0.decode("reference", as: String.self) } == [over.periods[2]])
      // The transaction was signed just now, so it is kept.
      try await harness.service.retentionJob.run()
      #expect(try await left(over.id).count == 2)
      // A refund of the latest period ends the subscription.
      try await harness.happens(.refundLatest, to: over.id)
      #expect(try await harness.row(of: over.id).status == "cancelled")
      #expect(try await harness.row(of: over.id).transactionID == over.periods[5])
      #expect(try await harness.row(of: runs.id).status == "active")
    }
  }

  @Test func `random lives give the same rows after retention, and repeated notifications change nothing`()
    async throws
  {
    try await withHarness(
      configuration: DeliveredLivesTests.configuration, environment: Self.kept, role: "receiptd_app"
    ) { harness in
      let now = harness.clock.now
      var forgotten = 0
      for seed in 100..<112 as Range<UInt64> {
        let life = RandomLife(seed: seed, from: now - 6 * 365 * 86_400)
        guard life.end < now else { continue }
        harness.clock.set(life.end)
        let sent = try harness.store.remember(life).map(\.signedPayload)
        for payload in sent { #expect(try await harness.notify(payload).status == 200) }
        harness.clock.set(now)
        _ = try await harness.service.sweep.run()

        func judge() async throws -> [String] {
          let app = harness.service.notifications.catalog.apps[0]
          for id in life.purchases {
            _ = try await harness.service.notifications.ledger.record(
              LedgerEntry(app: app, originalTransactionID: id, because: .time, instant: harness.clock.now))
          }
          // `status_since` follows from the former period, which may be deleted.
          return try await harness.pool.query(
            """
            SELECT (to_jsonb(s) - 'id' - 'created_at' - 'updated_at' - 'status_since')::text AS row FROM subscriptions s
            WHERE original_transaction_id = ANY(\(life.purchases)) ORDER BY 1
            """
          ).map { try $0.decode("row", as: String.self) }
        }
        let before = try await judge()
        let all = try await harness.count("transactions")
        _ = try await harness.pool.query("UPDATE retention_positions SET forgotten_before = NULL")
        try await harness.service.retentionJob.run()
        forgotten += try await all - harness.count("transactions")
        let rest = try await judge()
        #expect(rest == before, "LIFE=\(seed)")
        for payload in sent.shuffled() { #expect(try await harness.notify(payload).status == 200) }
        let again = try await judge()
        #expect(again == before, "LIFE=\(seed)")
      }
      #expect(forgotten > 20)
    }
  }

  @Test func `two concurrent retention runs delete each row once, in several batches`()
    async throws
  {
    try await withHarness(environment: Self.kept) { harness in
      _ = try await harness.pool.query("INSERT INTO jws_headers (header, sha256) VALUES ('h', 'h')")
      _ = try await harness.pool.query(
        """
        INSERT INTO notifications (notification_uuid, type, signed_at, received_at, processed_at, outcome,
          envelope_header, envelope_claims, envelope_signature)
        SELECT gen_random_uuid(), 'TEST', at, at, at, 'recorded', (SELECT max(id) FROM jws_headers), '{}', ''
        FROM generate_series(now() - interval '15 months', now(), interval '30 minutes') AS at
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO transactions (transaction_id, original_transaction_id, bundle_id, environment, product_id, kind,
          ownership, purchase_date, is_upgraded, signed_at)
        SELECT n::text, n::text, 'com.example', 'Production', 'p', 'Consumable', 'PURCHASED',
          now() - interval '20 months' + n % 3 * interval '1 day', false, now() FROM generate_series(1, 5000) AS n
        """)
      let other = try await harness.service(configuration: TestApps.json)
      async let first = harness.service.retentionJob.run()
      async let second = other.retentionJob.run()
      let deleted = try await first + second
      let rest = try await harness.service.retentionJob.run()
      let expected = try await harness.pool.query(
        """
        SELECT count(*) FROM generate_series(now() - interval '15 months', now(), interval '30 minutes') AS at
        WHERE at < date_trunc('month', now(), 'UTC') - interval '12 months'
        """)[0].decode("count", as: Int.self)
      // The limit may move by one row during the test.
      #expect(abs(deleted + rest - expected) <= 1)
      #expect(try await harness.count("transactions") == 5000)
      let position = try await harness.pool.query(
        "SELECT forgotten_before IS NOT NULL AS has_position, looked_until IS NULL AS is_finished FROM retention_positions"
      )[0]
      #expect(try position.decode("has_position", as: Bool.self))
      #expect(try position.decode("is_finished", as: Bool.self))
      await other.close()
    }
  }

  @Test
  func `the server role can delete only by the retention functions, and no rows below their minimum age`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      for statement in [
        "DELETE FROM notifications", "DELETE FROM transactions",
        "UPDATE retention_positions SET forgotten_before = now()",
      ] {
        do {
          _ = try await harness.service.pool.query(Query(unescaped: statement))
          Issue.record("\(statement) was allowed")
        } catch let error as PostgresError {
          #expect(error.sqlState == "42501", "\(statement): \(error)")
        }
      }
      for months in [-1, 0, 6, 1_000_000] {
        for table in RetainedTable.allCases {
          await #expect(throws: PostgresError.self) {
            try await harness.service.pool.query(RetentionRows.forget(table, months: months))
          }
        }
      }
    }
  }

  @Test func `retention keeps everything by default and is at least seven months`() throws {
    func retention(_ variables: [String: String]) throws -> Retention {
      try Settings(environment: ["DATABASE_URL": "postgres://h/d"].merging(variables) { $1 }).retention
    }
    #expect(try retention([:]) == Retention())
    #expect(try retention(Self.kept) == Retention(notifications: 12, transactions: 12))
    for name in Self.kept.keys {
      for value in ["6", "0", "-7", "1201", "a year", "7 "] {
        #expect(throws: ConfigurationProblem.self) { try retention([name: value]) }
      }
    }
  }
}

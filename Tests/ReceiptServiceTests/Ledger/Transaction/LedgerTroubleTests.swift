import AppStore
import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Subscriptions
import TestDatabase
import Testing

@testable import Ledger
@testable import ReceiptService

/// Facts that the database cannot store at the moment, and rows that the service cannot read.
@Suite struct LedgerTroubleTests {
  @Test func `a refund that waits too long for a lock gets 503, and its repetition ends access`()
    async throws
  {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let separator = database.uri.contains("?") ? "&" : "?"
      let harness = try await Harness(
        databaseURL: "\(database.uri)\(separator)options=-c%20lock_timeout%3D300ms",
        configuration: TestApps.json)
      let (user, bought) = try await harness.customer(buys: TestApps.lifetime)
      let id = bought.originalTransactionID
      let refunded = try harness.store.perform(.refundLatest, on: id)
      let held = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          "SELECT 1 FROM subscriptions WHERE original_transaction_id = \(id) FOR UPDATE")
        return try await harness.notify(refunded.notification.signedPayload)
      }
      #expect(held.status == 503)
      #expect(held.code == "database_unavailable")
      #expect(try await harness.count("notifications") == 1)
      let again = try await harness.notify(refunded.notification.signedPayload)
      #expect(again.status == 200)
      #expect(try await harness.isPremium(user) == false)
      await harness.stop()
    }
  }

  @Test func `the log line of a notification that the database could not store has its trace id`()
    async throws
  {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let separator = database.uri.contains("?") ? "&" : "?"
      let lines = LogLines()
      let harness = try await Harness(
        databaseURL: "\(database.uri)\(separator)options=-c%20lock_timeout%3D300ms",
        configuration: TestApps.json, logger: Logger(label: "tests") { _ in lines })
      let bought = try harness.buy()
      let held = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE transactions IN EXCLUSIVE MODE")
        return try await harness.notify(bought.notification.signedPayload)
      }
      #expect(held.status == 503)
      let failures = lines.all.filter { $0.hasPrefix("an entry is answered 503") }
      #expect(failures.count == 1)
      #expect(failures.allSatisfy { $0.contains(" trace=") })
      await harness.stop()
    }
  }

  @Test func `an entry without an admission that divides by zero is kept as failed`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'division_by_zero'; END $$
        """)
      _ = try await harness.pool.query(
        "CREATE TRIGGER refuse BEFORE INSERT ON subscriptions FOR EACH ROW EXECUTE FUNCTION refuse()")
      let bought = try harness.buy()
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      let kept = try await harness.pool.query("SELECT outcome FROM notifications")
      #expect(try kept.map { try $0.decode(0, as: String.self) } == ["failed"])
      #expect(try await harness.validate(["signedTransaction": bought.signedTransaction]).status == 500)
    }
  }

  @Test func `a notification about an unreadable row is stored and takes effect when the row is repaired`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      func setWord(_ word: String) async throws {
        _ = try await harness.pool.query(
          """
          UPDATE subscriptions SET phase_statuses[1] = \(word) WHERE original_transaction_id = \(id)
          """)
      }
      try await setWord("paused")
      let refunded = try harness.store.perform(.refundLatest, on: id)
      #expect(try await harness.notify(refunded.notification.signedPayload).status == 200)
      let kept = try await harness.pool.query("SELECT outcome FROM notifications WHERE type = 'REFUND'")
      #expect(try kept[0].decode(0, as: String.self) == "failed")

      try await setWord("active")
      await harness.service.replayWaiting(only: .failed)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.row(of: id).status == "cancelled")
    }
  }

  @Test
  func `an unreadable row fails only its own customer's validation, and every notification is applied`()
    async throws
  {
    try await withScreenTime { harness in
      let old = try await harness.device("ann", buys: ScreenTime.individual)
      let new = try await harness.device("ben", buys: ScreenTime.individual)
      // An unreadable row of another purchase of the same customer; the batch does not write it.
      _ = try await harness.pool.query(
        """
        INSERT INTO subscriptions (original_transaction_id, transaction_id, bundle_id, environment, product_id,
          kind, ownership, purchase_date, auto_renew_enabled, signed_at, is_counted, status, store_status,
          phase_starts, phase_statuses, phase_store_statuses, device_id)
        SELECT 'unreadable', 'unreadable', bundle_id, environment, product_id, kind, ownership, purchase_date,
          false, signed_at, true, 'active', 'active', ARRAY[NULL]::timestamptz[], ARRAY['paused'], ARRAY['active'],
          device_id
        FROM subscriptions WHERE original_transaction_id = \(old.originalTransactionID)
        """)
      harness.clock.set(try #require(new.transaction.expiresDate))
      let renewed = try [old, new].map { try harness.store.perform(.renew, on: $0.originalTransactionID) }
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for outcome in renewed {
          group.addTask { try await harness.notify(outcome.notification.signedPayload).status }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(statuses == [200, 200])
      // Each renewal counts once as applied, not as a duplicate or a failure.
      let counts = try await harness.scrape().counts("receiptd_notifications_total")
        .filter { $0.key.contains("DID_RENEW") }
      #expect(counts == [#"{outcome="applied",subtype="",type="DID_RENEW"}"#: 2])

      // A validation by the customer with the unreadable row gets 500, and its purchase is stored all the same.
      let readable = try await harness.device("ben", shows: renewed[1])
      #expect(readable.bool("entitlements.isAccessGranted") == true)
      let another = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let unreadable = try await harness.validate([
        "signedTransaction": another.signedTransaction, "deviceID": "ann",
      ])
      #expect(unreadable.status == 500)
      #expect(try await harness.row(of: another.originalTransactionID).status == "active")
    }
  }

  @Test
  func
    `a transaction that another session stores under another purchase meanwhile stays under that purchase`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let old = bought.originalTransactionID
      let token = try await harness.token(for: user)
      var info = bought.transaction
      info.transactionId = "88\(old)"
      info.originalTransactionId = "77\(old)"
      harness.clock.advance(seconds: 60)
      info.signedDate = harness.clock.now
      let body = try harness.sign(info)
      let answer = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          """
          INSERT INTO transactions SELECT (r).* FROM (
            SELECT jsonb_populate_record(t, jsonb_build_object('transaction_id', \("88\(old)")::text)) AS r
            FROM transactions t WHERE transaction_id = \(old)) AS copy
          """)
        let answer = Task { try await harness.sync([body], user: user, token: token).status }
        // The request waits for the inserted row that is not yet committed.
        let blocked: Query = """
          SELECT count(*) FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event = 'transactionid'
          """
        while try await harness.pool.query(blocked)[0].decode(0, as: Int.self) == 0 { await Task.yield() }
        return answer
      }
      #expect(try await answer.value == 200)
      #expect(try await harness.count("subscriptions") == 1)
      let home = try await harness.pool.query(
        "SELECT original_transaction_id FROM transactions WHERE transaction_id = \("88\(old)")")
      #expect(try home[0].decode(0, as: String.self) == old)
    }
  }

  @Test
  func `a transaction that is signed again under another original id is one purchase, which its refund ends`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let old = bought.originalTransactionID
      let token = try await harness.token(for: user)
      var info = bought.transaction
      info.previousOriginalTransactionId = old
      info.originalTransactionId = "77\(old)"
      harness.clock.advance(seconds: 60)
      info.signedDate = harness.clock.now
      #expect(try await harness.sync([harness.sign(info)], user: user, token: token).status == 200)
      #expect(try await harness.isPremium(user))
      #expect(try await harness.count("subscriptions") == 1)

      harness.clock.advance(seconds: 60)
      info.revocationDate = harness.clock.now
      info.signedDate = harness.clock.now
      #expect(try await harness.sync([harness.sign(info)], user: user, token: token).status == 200)
      #expect(try await harness.isPremium(user) == false)
      #expect(try await harness.row(of: old).status == "cancelled")
    }
  }

  @Test
  func `transactions of one request that are stored under an old and a new original id are all recorded`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let old = bought.originalTransactionID
      let new = "77\(old)"
      var renewed = bought.transaction
      renewed.transactionId = "88\(old)"
      renewed.originalTransactionId = new
      renewed.previousOriginalTransactionId = old
      renewed.purchaseDate = try #require(bought.transaction.expiresDate)
      renewed.expiresDate = renewed.purchaseDate.addingTimeInterval(30 * 86_400)
      harness.clock.set(renewed.purchaseDate)
      let token = try await harness.token(for: user)
      renewed.signedDate = harness.clock.now
      #expect(try await harness.sync([harness.sign(renewed)], user: user, token: token).status == 200)
      #expect(try await harness.count("subscriptions") == 2)

      // Apple signs both under the new id, the first one as refunded.
      var first = bought.transaction
      first.originalTransactionId = new
      first.previousOriginalTransactionId = old
      harness.clock.advance(seconds: 60)
      (first.signedDate, first.revocationDate) = (harness.clock.now, harness.clock.now)
      renewed.signedDate = harness.clock.now
      let both = try [harness.sign(first), harness.sign(renewed)]
      let answer = try await harness.sync(both, user: user, token: token)
      #expect(answer.status == 200)
      #expect(answer.bool("isPremium") == true)
      #expect(try await harness.row(of: old).status == "cancelled")
      #expect(try await harness.row(of: new).status == "active")
      #expect(try await harness.row(of: new).userID == user)
      #expect(try await harness.count("transactions") == 2)
    }
  }

  @Test func `purchases without transactions do not stop the sweep of other purchases`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      // A whole page of the sweep, of purchases without any transaction.
      _ = try await harness.pool.query(
        """
        INSERT INTO subscriptions (original_transaction_id, transaction_id, bundle_id, environment, product_id,
          kind, ownership, purchase_date, auto_renew_enabled, signed_at, is_counted, status, store_status,
          phase_starts, phase_statuses, phase_store_statuses, next_change_at)
        SELECT 'empty-' || n, 'empty-' || n, \(TestApps.climbing), 'Production', \(TestApps.monthly),
          'Auto-Renewable Subscription', 'PURCHASED', now(), false, now(), true, 'active', 'active',
          ARRAY[NULL]::timestamptz[], ARRAY['active'], ARRAY['active'], now() - interval '1 year'
        FROM generate_series(1, 300) AS n
        """)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      _ = try await harness.service.sweep.run()
      #expect(try await harness.row(of: bought.originalTransactionID).status == "expired")
    }
  }

  @Test func `a downgrade to a product outside the catalog ends access when it begins`()
    async throws
  {
    try await withHarness { harness in
      var app = try #require(harness.store.app(TestApps.climbing))
      app.products["unheard.of"] = .subscription("unheard.of", rank: 0)
      harness.store.put(app)
      let (user, bought) = try await harness.customer()
      try await harness.happens(.changeProduct("unheard.of"), to: bought.originalTransactionID)
      let begins = try #require(bought.transaction.expiresDate)
      harness.clock.set(begins.addingTimeInterval(-3_600))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await harness.isPremium(user))
      harness.clock.set(begins)
      #expect(try await harness.isPremium(user) == false)
    }
  }
}

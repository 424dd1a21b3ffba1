import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// One row for each notification and each transaction, wherever months begin and end.
@Suite struct MonthBorderTests {
  /// The first instant of the month that runs, UTC.
  private static func border(_ harness: Harness) async throws -> Date {
    try await harness.pool.query("SELECT date_trunc('month', now(), 'UTC')")[0].decode(0, as: Date.self)
  }

  @Test func `what is signed around midnight and posted to two servers many times is kept once each`()
    async throws
  {
    try await withHarness { harness in
      try await harness.pool.divide(monthsAgo: 3)
      let other = try await harness.service(configuration: TestApps.json)
      let border = try await Self.border(harness)
      var payloads: [String] = []
      for offset in [-2, -1, -0.002, -0.001, 0, 0.001, 0.002, 1] {
        harness.clock.set(border + offset)
        let bought = try harness.buy(token: UUID())
        payloads.append(bought.notification.signedPayload)
        payloads.append(
          try harness.store.perform(.setAutoRenew(false), on: bought.originalTransactionID).notification
            .signedPayload)
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for payload in (0..<8).flatMap({ _ in payloads.shuffled() }) {
          group.addTask {
            let answer = try await harness.notify(payload)
            #expect(answer.status == 200)
          }
          group.addTask {
            _ = try await other.notifications.ledger.record(other.notifications.entry(for: payload))
          }
        }
        try await group.waitForAll()
      }
      let kept = try await harness.pool.query(
        """
        SELECT count(*), count(DISTINCT notification_uuid), count(DISTINCT tableoid) FROM notifications
        """)[0]
      #expect(try kept.decode(0, as: Int.self) == payloads.count)
      #expect(try kept.decode(1, as: Int.self) == payloads.count)
      #expect(try kept.decode(2, as: Int.self) == 2)
      #expect(try await harness.count("transactions") == 8)
      await other.close()
    }
  }

  @Test func `a notification without a date of the App Store's is known again a month later`() async throws {
    try await withHarness { harness in
      try await harness.pool.divide(monthsAgo: 3)
      let claims = #"{"notificationType": "DID_RENEW", "notificationUUID": "u", "signedDate": "yesterday"}"#
      let jws = try harness.store.identity.authority.signer.sign(json: Array(claims.utf8))
      for _ in 0..<3 {
        #expect(try await harness.notify(jws).status == 200)
        harness.clock.advance(days: -31)
      }
      #expect(try await harness.count("notifications") == 1)
    }
  }

  @Test func `what the history dates otherwise is no second notification`() async throws {
    try await withHarness { harness in
      try await harness.pool.divide(monthsAgo: 3)
      let bought = try harness.buy()
      try await harness.arrives(bought)
      _ = try await harness.pool.query("UPDATE notifications SET signed_at = signed_at - interval '40 days'")
      let intake = harness.service.notifications
      let entry = try intake.entry(for: bought.notification.signedPayload, from: .history)
      #expect(try await intake.ledger.record(entry).isDuplicate)
      #expect(try await harness.count("notifications") == 1)
    }
  }

  @Test func `a transaction whose purchase date changes moves to another month and stays one`() async throws {
    try await withHarness { harness in
      try await harness.pool.divide(monthsAgo: 6)
      let bought = try harness.buy(token: UUID())
      try await harness.arrives(bought)
      for (days, signed) in [(-40.0, 1.0), (-80, 2), (200, 3), (0, 4)] {
        var info = bought.transaction
        info.purchaseDate += days * 86_400
        info.signedDate += signed
        let answer = try await harness.validate(["signedTransaction": harness.sign(info)])
        #expect(answer.status == 200)
        let rows = try await harness.pool.query(
          "SELECT purchase_date FROM transactions WHERE transaction_id = \(info.transactionId)")
        #expect(rows.count == 1)
        #expect(try rows[0].decode(0, as: Date.self) == info.purchaseDate)
      }
      // An older word about it changes nothing.
      var stale = bought.transaction
      stale.purchaseDate -= 40 * 86_400
      stale.signedDate += 2
      _ = try await harness.validate(["signedTransaction": harness.sign(stale)])
      #expect(try await harness.count("transactions") == 1)
      let date = try await harness.pool.query("SELECT purchase_date FROM transactions")[0]
      #expect(try date.decode(0, as: Date.self) == bought.transaction.purchaseDate)
    }
  }

  @Test func `what comes where no month is made is kept, known again, and moved when its month is made`()
    async throws
  {
    try await withHarness { harness in
      try await harness.pool.divide()
      harness.clock.advance(days: 150)
      let bought = try harness.buy(token: UUID())
      for _ in 0..<2 { try await harness.arrives(bought) }
      #expect(try await harness.count("notifications_of_no_month") == 1)
      #expect(try await harness.count("transactions_of_no_month") == 1)
      harness.clock.advance(days: 40)
      let later = try harness.buy(token: UUID())
      try await harness.arrives(later)
      let until = bought.transaction.purchaseDate
      for table in MonthlyTable.allCases {
        let made = try await harness.pool.query(
          "SELECT receiptd_make_months_through(\(table.rawValue)::text::name, \(until))")
        #expect(made.count >= 1)
        let last = try #require(await harness.pool.months(of: table).dropLast().last)
        #expect(try await harness.count(last) == 1)
        #expect(try await harness.count("\(table.rawValue)_of_no_month") == 1)
        #expect(try await harness.count(table.rawValue) == 2)
      }
      try await harness.arrives(bought)
      _ = try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let kept = try await harness.count("notifications")
      // Two purchases; the refund, and that it will not renew.
      #expect(kept == 4)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "cancelled")
    }
  }

  @Test func `whether a notification is known is asked of its month alone, by index`() async throws {
    try await withHarness { harness in
      try await harness.pool.divide(monthsAgo: 24)
      let kept = try harness.service.notifications.entry(for: harness.buy().notification.signedPayload)
      let query = NotificationRows.existing([try #require(kept.notification)])
      let plan = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(LookupPlans.fromHere)
        _ = try await connection.execute(
          script: "PREPARE known (uuid[], timestamptz, timestamptz) AS \(query.text)")
        let lines = try await connection.query(
          "EXPLAIN (ANALYZE, COSTS off, TIMING off) EXECUTE known (ARRAY[gen_random_uuid()], now(), now())")
        return try lines.map { try $0.decode(0, as: String.self) }
      }
      // It is the plan for all values, and 24 months and more are out before anything is read.
      #expect(plan.contains { $0.contains("= ANY ($1)") })
      #expect(plan.filter { $0.contains(" on notifications_") && $0.contains("Index Scan") }.count == 1)
      #expect(plan.contains { $0.contains("Subplans Removed: 2") })
      #expect(!plan.contains { $0.contains("Seq Scan") })
    }
  }
}

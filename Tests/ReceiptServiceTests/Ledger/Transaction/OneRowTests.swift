import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

/// The ledger keeps one row for each notification and each transaction.
@Suite struct OneRowTests {
  @Test func `notifications that are posted to two servers many times are stored once each`()
    async throws
  {
    try await withHarness { harness in
      let other = try await harness.service(configuration: TestApps.json)
      let start = harness.clock.now
      var payloads: [String] = []
      for offset in [0, 0.001, 0.002, 0.003, 0.004, 1, 2, 3] {
        harness.clock.set(start + offset)
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
        SELECT count(*), count(DISTINCT notification_uuid) FROM notifications
        """)[0]
      #expect(try kept.decode(0, as: Int.self) == payloads.count)
      #expect(try kept.decode(1, as: Int.self) == payloads.count)
      #expect(try await harness.count("transactions") == 8)
      await other.close()
    }
  }

  @Test func `a notification without a valid signedDate is stored once, also if it arrives months later`()
    async throws
  {
    try await withHarness { harness in
      let claims = #"{"notificationType": "DID_RENEW", "notificationUUID": "u", "signedDate": "yesterday"}"#
      let jws = try harness.store.identity.authority.signer.sign(json: Array(claims.utf8))
      for _ in 0..<3 {
        #expect(try await harness.notify(jws).status == 200)
        harness.clock.advance(days: -31)
      }
      #expect(try await harness.count("notifications") == 1)
    }
  }

  @Test func `a notification that the history returns with another date is a duplicate`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      try await harness.arrives(bought)
      _ = try await harness.pool.query("UPDATE notifications SET signed_at = signed_at - interval '40 days'")
      let intake = harness.service.notifications
      let entry = try intake.entry(for: bought.notification.signedPayload, from: .history)
      #expect(try await intake.ledger.record(entry).isDuplicate)
      #expect(try await harness.count("notifications") == 1)
    }
  }

  @Test func `a transaction that changes its purchase date stays one row`() async throws {
    try await withHarness { harness in
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
      // An older signature of the transaction changes nothing.
      var stale = bought.transaction
      stale.purchaseDate -= 40 * 86_400
      stale.signedDate += 2
      _ = try await harness.validate(["signedTransaction": harness.sign(stale)])
      #expect(try await harness.count("transactions") == 1)
      let date = try await harness.pool.query("SELECT purchase_date FROM transactions")[0]
      #expect(try date.decode(0, as: Date.self) == bought.transaction.purchaseDate)
    }
  }
}

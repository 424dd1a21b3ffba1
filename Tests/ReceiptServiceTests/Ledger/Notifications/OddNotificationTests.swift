import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

/// Notifications with a valid signature and unusual content.
@Suite struct OddNotificationTests {
  @Test
  func `a notification of another app id or environment stays pending and does not change the subscription`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user)
      _ = try await harness.notify(bought.notification.signedPayload)
      let before = try await harness.row(of: bought.originalTransactionID)
      for (appleID, environment) in [(7, Environment.production), (1_500_000_001, .xcode)]
        as [(Int64, Environment)]
      {
        var data = NotificationData(environment: environment, bundleId: TestApps.climbing)
        data.appAppleId = appleID
        var info = bought.transaction
        info.environment = environment
        data.signedTransactionInfo = try harness.sign(info)
        var payload = NotificationPayload(
          notificationType: .didRenew, notificationUUID: UUID().uuidString, signedDate: harness.clock.now)
        payload.data = data
        let answer = try await harness.notify(harness.store.identity.authority.signer.sign(payload))
        #expect(answer.status == 200)
      }
      #expect(try await harness.row(of: bought.originalTransactionID) == before)
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      let waiting = try await harness.pool.query(
        "SELECT outcome FROM notifications WHERE processed_at IS NULL")
      #expect(waiting.count == 2)
    }
  }

  @Test(arguments: [
    #"{"notificationType": 5, "notificationUUID": "u", "signedDate": 1800000000000}"#,
    #"{"notificationType": "DID_RENEW", "signedDate": 1800000000000}"#,
    #"{"notificationType": "DID_RENEW", "notificationUUID": "u", "signedDate": "yesterday"}"#,
    #"{"notificationType": "DID_RENEW", "notificationUUID": "u", "signedDate": 99999999999999999}"#,
    #"{"notificationType": "DID_RENEW", "notificationUUID": "u", "signedDate": 1, "data": {"status": "one"}}"#,
  ])
  func `an undecodable notification is stored once, byte for byte`(claims: String) async throws {
    try await withHarness { harness in
      let jws = try harness.store.identity.authority.signer.sign(json: Array(claims.utf8))
      #expect(try await harness.notify(jws).status == 200)
      #expect(try await harness.notify(jws).status == 200)
      let rows = try await harness.pool.query(
        "SELECT outcome, processed_at, envelope_claims FROM notifications")
      #expect(rows.count == 1)
      #expect(try rows[0].decode("outcome", as: String.self) == "failed")
      #expect(try rows[0].decode("processed_at", as: Date?.self) == nil)
      #expect(try rows[0].decode("envelope_claims", as: String.self) == claims)
    }
  }

  @Test func `signed data that is not a notification is refused`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let signer = harness.store.identity.authority.signer
      for jws in [
        bought.signedTransaction, try #require(bought.signedRenewalInfo),
        try signer.sign(json: Array("[]".utf8)),
      ] {
        let answer = try await harness.notify(jws)
        #expect(answer.status == 401)
      }
      #expect(try await harness.count("notifications") == 0)
    }
  }

  @Test func `transactions of another app or environment under a known purchase change nothing`() async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy()
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      let before = try await harness.row(of: bought.originalTransactionID)
      func variant(_ change: (inout TransactionInfo) -> Void) throws -> [String: String] {
        var info = bought.transaction
        info.transactionId += "9"
        info.purchaseDate += 60
        info.signedDate += 60
        change(&info)
        return ["signedTransaction": try harness.sign(info)]
      }
      let sandbox = try await harness.validate(variant { $0.environment = .sandbox }, token: token)
      #expect(sandbox.code == "wrong_app")
      let other = try await harness.validate(
        variant {
          $0.bundleId = TestApps.family
          $0.productId = TestApps.individual
        })
      #expect(other.code == "wrong_app")
      #expect(try await harness.row(of: bought.originalTransactionID) == before)
      #expect(try await harness.profile(of: user, token: token).bool("isPremium") == true)
    }
  }

  @Test func `a purchase's owner does not depend on the order of notifications with different tokens`()
    async throws
  {
    try await withHarness { harness in
      let (anna, boris) = (UUID(), UUID())
      var owners: Set<UUID?> = []
      for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let bought = try harness.buy()
        let payloads = try [anna, boris, nil].enumerated().map { index, token in
          var info = bought.transaction
          info.transactionId += "\(index)"
          info.purchaseDate += Double(index)
          info.appAccountToken = token
          var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
          data.appAppleId = 1_500_000_001
          data.signedTransactionInfo = try harness.sign(info)
          var payload = NotificationPayload(
            notificationType: .didRenew, notificationUUID: UUID().uuidString, signedDate: harness.clock.now)
          payload.data = data
          return try harness.store.identity.authority.signer.sign(payload)
        }
        for index in order { #expect(try await harness.notify(payloads[index]).status == 200) }
        owners.insert(try await harness.row(of: bought.originalTransactionID).userID)
      }
      #expect(owners == [boris])
    }
  }

  @Test func `the server reads JWS header ids again after a restore of their table`() async throws {
    try await withHarness { harness in
      let first = try harness.buy()
      #expect(try await harness.notify(first.notification.signedPayload).status == 200)
      let uuid = try #require(UUID(uuidString: first.notification.uuid))
      // In a table from before the insert, the id is unused or that of another header.
      for other in [nil, "eyJvdGhlciI6MX0"] {
        _ = try await harness.pool.query("ALTER TABLE jws_headers DISABLE TRIGGER receiptd_keep_headers")
        let ids = try await harness.pool.query("SELECT id FROM jws_headers")
          .map { try $0.decode("id", as: Int32.self) }
        _ = try await harness.pool.query("TRUNCATE notifications, jws_headers")
        if let other {
          _ = try await harness.pool.query(
            """
            INSERT INTO jws_headers (id, header, sha256) OVERRIDING SYSTEM VALUE
            SELECT id, \(other)::text, sha256(convert_to(\(other)::text || id, 'UTF8'))
            FROM unnest(\(ids)::integer[]) AS id
            """)
        }
        #expect(try await harness.notify(first.notification.signedPayload).status == 200)
        #expect(try await harness.count("notifications") == 1)
        #expect(try await harness.count("jws_headers") == ids.count + (other == nil ? 0 : 1))
        // The stored payload is still the signed one.
        let replayed = try await harness.service.replay(uuid, by: #require(Harness.ada))
        #expect(replayed.outcome == "unchanged")
      }
    }
  }

  @Test func `JWS headers of stored notifications can be neither changed nor deleted`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      let attempts: [Query] = [
        "DELETE FROM jws_headers", "UPDATE jws_headers SET header = 'other'", "TRUNCATE jws_headers",
      ]
      for attempt in attempts {
        let error = await #expect(throws: PostgresError.self) {
          _ = try await harness.pool.query(attempt)
        }
        #expect(error?.sqlState == "55000")
      }
      #expect(try await harness.count("jws_headers") == 1)
    }
  }

  @Test func `an unknown product in a sync does not affect the other transactions`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let unknown = try harness.transaction { $0.productId = "com.example.climbing.unheard" }
      let answer = try await harness.sync(
        [harness.buy().signedTransaction, harness.sign(unknown)], user: user, token: token)
      #expect(answer.code == "unknown_product")
      #expect(try await harness.count("transactions") == 2)
      #expect(try await harness.profile(of: user, token: token).bool("isPremium") == true)
    }
  }
}

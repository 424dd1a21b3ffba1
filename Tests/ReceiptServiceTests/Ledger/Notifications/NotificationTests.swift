import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing
import Work

@testable import Ledger
@testable import ReceiptService

@Suite struct NotificationTests {
  @Test func `purchase, renewal, billing grace, recovery and refund each change the row and the profile`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user)
      let id = bought.originalTransactionID
      func tell(_ command: SubscriptionCommand) async throws -> SignedOutcome {
        let outcome = try harness.store.perform(command, on: id)
        #expect(try await harness.notify(outcome.notification.signedPayload).status == 200)
        return outcome
      }
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await harness.row(of: id).status == "active")
      #expect(try await harness.row(of: id).userID == user)
      #expect(try await harness.profileRow(of: user)?.expiresAt == bought.transaction.expiresDate)

      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await tell(.renew)
      #expect(try await harness.row(of: id).expiry == renewed.transaction.expiresDate)
      #expect(try await harness.profileRow(of: user)?.expiresAt == renewed.transaction.expiresDate)

      harness.clock.set(try #require(renewed.transaction.expiresDate))
      let failed = try await tell(.failToRenew(grace: true))
      let grace = try #require(failed.renewalInfo?.gracePeriodExpiresDate)
      #expect(try await harness.row(of: id).storeStatus == "billingGrace")
      #expect(try await harness.row(of: id).graceExpiry == grace)
      #expect(try await harness.profileRow(of: user)?.expiresAt == grace)

      harness.clock.advance(days: 2)
      let recovered = try await tell(.recover)
      #expect(try await harness.row(of: id).storeStatus == "active")
      #expect(try await harness.row(of: id).transactionID == recovered.transactionID)

      harness.clock.advance(days: 1)
      let refunded = try await tell(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason))
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled")
      #expect(row.storeStatus == "revoked")
      #expect(row.revoked == refunded.transaction.revocationDate)
      #expect(try await harness.profileRow(of: user) == ProfileRow())

      _ = try await tell(.reverseRefund(transactionID: nil))
      #expect(try await harness.row(of: id).status == "active")
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
    }
  }

  @Test func `the same notification posted 100 times concurrently gives one row and 100 responses 200`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let payload = bought.notification.signedPayload
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<100 { group.addTask { try await harness.notify(payload).status } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(statuses == Array(repeating: 200, count: 100))
      #expect(try await harness.count("notifications") == 1)
      #expect(try await harness.count("subscriptions") == 1)
      #expect(try await harness.count("transactions") == 1)
    }
  }

  @Test func `a repeated notification is stored again after a restore of the database to an earlier state`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy(token: user)
      let others = try (0..<3).map { _ in try harness.buy().notification.signedPayload }
      for payload in [bought.notification.signedPayload] + others {
        #expect(try await harness.notify(payload).status == 200)
      }
      // The state of a backup from before the purchase.
      for table in ["notifications", "transactions", "renewals", "subscriptions", "profiles"] {
        _ = try await harness.pool.query("DELETE FROM \(unescaped: table)")
      }
      // Concurrently, so that some share a transaction.
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for payload in [bought.notification.signedPayload] + others {
          group.addTask { try await harness.notify(payload).status }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(statuses == [200, 200, 200, 200])
      #expect(try await harness.count("notifications") == 4)
      #expect(try await harness.count("transactions") == 4)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      #expect(
        try await harness.profileRow(of: user)?.expiresAt == bought.transaction.expiresDate)
    }
  }

  @Test
  func
    `a repeated notification does not wait for the purchase's lock, and a new one in the batch is processed`()
    async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let id = bought.originalTransactionID
      let payload = bought.notification.signedPayload
      #expect(try await harness.notify(payload).status == 200)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try harness.store.perform(.renew, on: id)
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for payload in [renewed.notification.signedPayload] + Array(repeating: payload, count: 20) {
          group.addTask { try await harness.notify(payload).status }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(statuses == Array(repeating: 200, count: 21))
      #expect(try await harness.row(of: id).expiry == renewed.transaction.expiresDate)
      #expect(try await harness.count("notifications") == 2)
      // The lock that a writer of the purchase holds.
      try await harness.pool.withTransaction { connection in
        _ = try await connection.pipeline([AdvisoryLock.acquire(.purchase, [id])])
        #expect(try await harness.notify(payload).status == 200)
      }
    }
  }

  @Test func `notifications in any order end in the same row`() async throws {
    let life: [SubscriptionCommand] = [
      .renew, .failToRenew(grace: true), .recover, .setAutoRenew(false), .setAutoRenew(true),
      .refund(transactionID: nil, percentage: 100, reason: .refundedDueToIssue),
      .reverseRefund(transactionID: nil),
    ]
    try await withHarness { harness in
      let user = UUID()
      var random = SeededGenerator(seed: 5)
      // The same events for three purchases; only the order of delivery differs.
      var rows: [SubscriptionRow] = []
      var profiles: [ProfileRow?] = []
      let start = harness.clock.now
      for order in 0..<4 {
        harness.clock.set(start)
        let bought = try harness.buy(token: user)
        var payloads = [bought.notification.signedPayload]
        var last = bought
        for command in life {
          if command == .renew || command == .failToRenew(grace: true) {
            harness.clock.set(try #require(last.transaction.expiresDate))
          } else {
            harness.clock.advance(days: 1)
          }
          last = try harness.store.perform(command, on: bought.originalTransactionID)
          payloads.append(last.notification.signedPayload)
        }
        switch order {
        case 0: break
        case 1: payloads.reverse()
        default: payloads.shuffle(using: &random)
        }
        for payload in payloads { #expect(try await harness.notify(payload).status == 200) }
        var row = try await harness.row(of: bought.originalTransactionID)
        #expect(row.transactionID == last.transactionID)
        row.transactionID = ""
        rows.append(row)
        profiles.append(
          try await harness.profileRow(of: user).map {
            ProfileRow(expiresAt: $0.expiresAt, product: $0.product)
          })
        #expect(try await harness.count("notifications") == (order + 1) * payloads.count)
      }
      #expect(rows.allSatisfy { $0 == rows[0] })
      #expect(rows[0].status == "active")
      #expect(profiles.allSatisfy { $0 == profiles[0] })
    }
  }

  @Test func `a notification without the App Store's signature is refused and not stored`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let stranger = try SimulatedAppStore(
        apps: [try #require(harness.store.app(TestApps.climbing))], clock: VirtualClock { harness.clock.now })
      let forged = try stranger.buy(
        PurchaseRequest(bundleID: TestApps.climbing, productID: TestApps.monthly))
      var flipped = Array(bought.notification.signedPayload)
      flipped[flipped.count / 2] = flipped[flipped.count / 2] == "A" ? "B" : "A"
      for payload in [forged.notification.signedPayload, String(flipped), "", "a.b.c"] {
        let answer = try await harness.notify(payload)
        #expect(answer.status == 401)
        #expect(answer.code == "invalid_signature")
      }
      #expect(try await harness.count("notifications") == 0)
    }
  }

  @Test func `a notification of an unknown app is stored as pending and gets 200`() async throws {
    try await withHarness { harness in
      let other = try SimulatedAppStore(
        identity: harness.store.identity,
        apps: [StoreApp(bundleID: "com.example.unknown", appAppleID: 42, products: [.subscription("m")])],
        clock: VirtualClock { harness.clock.now })
      let bought = try other.buy(PurchaseRequest(bundleID: "com.example.unknown", productID: "m"))
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      let row = try await harness.pool.query("SELECT outcome, processed_at FROM notifications")[0]
      #expect(try row.decode("outcome", as: String.self) == "unknown_app")
      #expect(try row.decode("processed_at", as: Date?.self) == nil)
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test
  func `an inner transaction of another app is not processed, and the notification is stored as failed`()
    async throws
  {
    try await withHarness { harness in
      let foreign = try harness.transaction { $0.bundleId = "com.example.other" }
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try harness.sign(foreign)
      var payload = NotificationPayload(
        notificationType: .didRenew, notificationUUID: UUID().uuidString, signedDate: harness.clock.now)
      payload.data = data
      let answer = try await harness.notify(harness.store.identity.authority.signer.sign(payload))
      #expect(answer.status == 200)
      #expect(try await harness.count("notifications WHERE outcome = 'failed' AND processed_at IS NULL") == 1)
      #expect(try await harness.count("transactions") == 0)
    }
  }

  @Test func `a TEST notification is recorded and changes nothing`() async throws {
    try await withHarness { harness in
      let test = try harness.store.test(bundleID: TestApps.climbing)
      #expect(try await harness.notify(test.signedPayload).status == 200)
      let row = try await harness.pool.query("SELECT type, outcome FROM notifications")[0]
      #expect(try row.decode("type", as: String.self) == "TEST")
      #expect(try row.decode("outcome", as: String.self) == "recorded")
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test func `a stored notification can be rebuilt byte for byte`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let verifier = try SignedDataVerifier(
        roots: TrustedRoots(files: [harness.store.identity.authority.rootDER]))
      for payload in [
        bought.notification.signedPayload,
        try harness.store.test(bundleID: TestApps.climbing).signedPayload,
      ] {
        let kept = KeptPayload(try verifier.notification(payload))
        #expect(kept.signedPayload == payload)
        let size = kept.parts.map { $0.claims.count + $0.signature.count }.reduce(0, +)
        #expect(size < payload.utf8.count / 2)
      }
    }
  }

  @Test func `a certificate chain is stored once for any number of notifications`() async throws {
    try await withHarness { harness in
      for _ in 0..<5 {
        let bought = try harness.buy()
        _ = try await harness.notify(bought.notification.signedPayload)
      }
      #expect(try await harness.count("notifications") == 5)
      #expect(try await harness.count("jws_headers") == 1)
    }
  }

  @Test
  func `a notification that the database refuses is stored as failed, and the others of its batch succeed`()
    async throws
  {
    try await withHarness { harness in
      // The constraint stands for any unexpected error.
      _ = try await harness.pool.query(
        "ALTER TABLE transactions ADD CONSTRAINT surprise CHECK (currency <> 'XXX')")
      let signer = harness.store.identity.authority.signer
      func notification(currency: String) throws -> String {
        var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
        data.appAppleId = 1_500_000_001
        data.signedTransactionInfo = try harness.sign(harness.transaction { $0.currency = currency })
        var payload = NotificationPayload(
          notificationType: .subscribed, notificationUUID: UUID().uuidString, signedDate: harness.clock.now)
        payload.data = data
        return try signer.sign(payload)
      }
      let payloads = try (0..<40).map { try notification(currency: $0 == 20 ? "XXX" : "USD") }
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for payload in payloads { group.addTask { try await harness.notify(payload).status } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(statuses == Array(repeating: 200, count: 40))
      #expect(try await harness.count("transactions") == 39)
      let failed = try await harness.pool.query(
        "SELECT processed_at FROM notifications WHERE outcome = 'failed'")
      #expect(failed.count == 1)
      #expect(try failed[0].decode("processed_at", as: Date?.self) == nil)
    }
  }

  @Test func `a notification with U+0000, which PostgreSQL cannot store, is not lost`() async throws {
    try await withHarness { harness in
      let info = try harness.transaction {
        $0.currency = "U\0D"
        $0.offerIdentifier = "\0"
      }
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try harness.sign(info)
      var payload = NotificationPayload(
        notificationType: .subscribed, notificationUUID: UUID().uuidString, signedDate: harness.clock.now)
      payload.data = data
      let answer = try await harness.notify(harness.store.identity.authority.signer.sign(payload))
      #expect(answer.status == 200)
      let outcome = try await harness.pool.query("SELECT outcome FROM notifications")[0]
      #expect(try outcome.decode("outcome", as: String.self) == "applied")
      #expect(try await harness.row(of: info.originalTransactionId).status == "active")
    }
  }
}

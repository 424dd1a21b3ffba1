import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Erasing a customer whom a notification names that could not be processed yet.
@Suite struct WaitingNotificationTests {
  @Test(arguments: WaitingNotification.Cause.allCases)
  func `an erased user does not come back by a notification that waited`(cause: WaitingNotification.Cause)
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let waiting = try await harness.waits(cause, token: user)
      try await harness.erase(user.uuidString)
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "erased")
      try await harness.trusting(waiting.root) { await $0.replayWaiting() }
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await !harness.isPremium(user))
    }
  }

  @Test(arguments: WaitingNotification.Cause.allCases)
  func `a user whom only a waiting notification names can be erased, and a renewal brings nothing back`(
    cause: WaitingNotification.Cause
  ) async throws {
    try await withHarness { harness in
      let user = UUID()
      let waiting = try await harness.waits(cause, token: user)
      let ada = try #require(Harness.ada)
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true)
      #expect(dry.description.contains("notifications: 1 ("))
      try await harness.erase(user.uuidString)
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.count("subscriptions") == 1)
      // Support does not see a row that only records the erasure.
      let hasFacts = cause == .unknownProduct
      #expect(try await harness.count("support_subscriptions") == (hasFacts ? 1 : 0))
      harness.clock.set(try #require(waiting.bought.transaction.expiresDate))
      try await harness.happens(.renew, to: waiting.bought.originalTransactionID)
      #expect(try await harness.row(of: waiting.bought.originalTransactionID).userID == nil)
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await !harness.isPremium(user))
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
      // A signed proof makes the user a new customer.
      let proof = [waiting.bought.signedTransaction]
      let token = try await harness.token(for: user)
      #expect(try await harness.sync(proof, user: user, token: token).bool("isPremium") == true)
    }
  }

  @Test(arguments: WaitingNotification.Cause.allCases)
  func `a device that is named like a user does not hide the user whom only a waiting notification names`(
    cause: WaitingNotification.Cause
  ) async throws {
    try await withHarness { harness in
      let user = UUID()
      let waiting = try await harness.waits(cause, token: user)
      let ada = try #require(Harness.ada)
      let id = user.uuidString.lowercased()
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, reason, granted_by)
        VALUES (\(TestApps.family), \(id), 'family', now(), 'x', 'y')
        """)
      #expect(try await refusal { try await harness.erase(id) } == .invalid)
      #expect(try await refusal { _ = try await harness.desk.exportCustomer(id) } == .invalid)
      let device = try await harness.desk.eraseCustomer(
        id, bundleID: TestApps.family, by: ada, isDryRun: true)
      #expect(device.erased.map(\.kind) == ["device"])
      let erased = try await harness.erase(id, of: TestApps.climbing)
      #expect(erased.erased.map(\.kind) == ["user"])
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "erased")
      #expect(try await harness.tables(with: id) == ["grants"])
      // Nothing names the user any more, and the device is found alone.
      #expect(try await harness.desk.exportCustomer(id).kinds == ["device"])
    }
  }

  @Test(arguments: WaitingNotification.Cause.allCases)
  func `the export of a user has the notifications that wait`(cause: WaitingNotification.Cause) async throws {
    try await withHarness { harness in
      let user = UUID()
      let waiting = try await harness.waits(cause, token: user)
      _ = try await harness.waits(cause, token: UUID())
      let export = try await harness.desk.exportCustomer(user.uuidString)
      let notifications = try #require(export.tables.first { $0.table == "notifications" })
      #expect(notifications.rows.count == 1)
      let row = "\(try #require(notifications.rows.first))".lowercased()
      #expect(row.contains(waiting.uuid))
      #expect(row.contains(user.uuidString.lowercased()))
    }
  }

  @Test func `the export has the claims of a transaction whose notification failed, and no signature`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let uuid = UUID().uuidString.lowercased()
      let failed = try harness.notification(uuid, with: bought.signedTransaction, renewal: "x.y.z")
      try await harness.receives(failed, uuid, under: .unknownRoot)
      // Clients may send proofs in their events.
      let properties = #"{"proof": "shown: \#(bought.signedTransaction)"}"#
      _ = try await harness.pool.query(
        """
        INSERT INTO events (bundle_id, customer_id, id, name, at, received_at, properties)
        VALUES (\(TestApps.climbing), \(user.uuidString.lowercased()), gen_random_uuid(), 'shown', now(), now(),
          \(properties)::text::jsonb)
        """)
      let export = try await harness.desk.exportCustomer(user.uuidString)
      let json = String(decoding: try JSONCoding.encode(export), as: UTF8.self)
      #expect(!json.contains(bought.signedTransaction.split(separator: ".")[2]))
      #expect(json.firstMatch(of: /[\w-]{8,}\.[\w-]{8,}\.[\w-]{43,}/) == nil)
      let rows = export.tables.filter { $0.table == "notifications" }.flatMap(\.rows)
      let row = try #require(rows.first { "\($0)".contains(uuid) })
      #expect("\(row)".contains(bought.transactionID))
      #expect(export.tables.contains { $0.table == "events" && "\($0.rows)".contains(bought.transactionID) })
    }
  }

  @Test func `a waiting notification of another customer stays`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let other = UUID()
      let waiting = try await harness.waits(.unknownApp, token: other)
      try await harness.erase(user.uuidString)
      #expect(try await harness.outcome(ofNotification: waiting.uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.isPremium(other))
    }
  }

  @Test
  func `waiting notifications of apps that were never configured lose an erased user and leave no purchase`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let count = ErasedCustomer.batchSize * 2 + 10
      try await harness.keepWaiting(count, naming: user, of: "com.example.foreign", because: .unknownApp)
      let ada = try #require(Harness.ada)
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true)
      #expect(dry.erased.first?.rows["notifications"] == count + 1)
      #expect(try await harness.count("notifications WHERE outcome = 'unknown_app'") == count)
      let export = try await harness.desk.exportCustomer(user.uuidString)
      #expect(export.tables.first { $0.table == "notifications" }?.rows.count == 1)

      let report = try await harness.erase(user.uuidString)
      #expect(report.erased.first?.rows["notifications"] == count + 1)
      #expect(report.erased.first?.rows["subscriptions"] == 1)
      #expect(try await harness.count("notifications WHERE outcome = 'erased'") == count)
      #expect(try await harness.count("subscriptions") == 1)
      #expect(try await harness.tables(with: user.uuidString) == [])
    }
  }

  @Test func `a user whom only a notification of an app that was never configured names can be erased`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      try await harness.keepWaiting(1, naming: user, of: "com.example.foreign", because: .unknownApp)
      #expect(try await harness.erase(user.uuidString).erased.first?.rows == ["notifications": 1])
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
    }
  }

  @Test func `a refused erasure leaves waiting notifications as they are`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      try await harness.keepWaiting(2, naming: user, of: "com.example.foreign", because: .unknownApp)
      #expect(try await refusal { try await harness.erase(user.uuidString, isForced: false) } == .invalid)
      #expect(try await harness.count("notifications WHERE outcome = 'unknown_app'") == 2)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `an erasure locks a batch of waiting notifications at a time, and ends all`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let count = ErasedCustomer.batchSize * 2 + 10
      try await harness.keepWaiting(count, naming: user, of: TestApps.climbing, because: .unknownProduct)
      let ada = try #require(Harness.ada)
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true)
      let rows = ["notifications": count, "subscriptions": count]
      #expect(dry.erased.first?.rows == rows)
      #expect(try await harness.count("notifications WHERE processed_at IS NULL") == count)
      // The transaction of the erasure has the locks of the notifications and waits for the customer's.
      let erasing = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.user(user)]))
        let erasing = Task { try await harness.erase(user.uuidString) }
        try await harness.untilWaiting(1)
        let locks = try await harness.value(
          """
          SELECT count(*) AS value FROM pg_locks
          WHERE locktype = 'advisory' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          """, as: Int.self)
        // One is this transaction's own.
        #expect(locks <= ErasedCustomer.batchSize + 1)
        #expect(
          try await harness.count("notifications WHERE processed_at IS NULL") == ErasedCustomer.batchSize)
        return erasing
      }
      #expect(try await erasing.value.erased.first?.rows == rows)
      #expect(try await harness.count("subscriptions WHERE erased_tokens IS NOT NULL") == count)
      #expect(try await harness.tables(with: user.uuidString) == [])
    }
  }

  @Test
  func `a dry run counts many waiting notifications of another customer's purchase as the erasure does`()
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let user = UUID()
      let count = ErasedCustomer.batchSize * 2 + 10
      try await harness.keepWaiting(
        count, naming: user, of: TestApps.climbing, because: .unknownProduct,
        about: bought.originalTransactionID)
      let ada = try #require(Harness.ada)
      let dry = try #require(
        try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true).erased.first)
      let erased = try #require(try await harness.erase(user.uuidString).erased.first)
      for report in [dry, erased] {
        #expect(report.rows == ["subscriptions": 1])
        #expect(report.notificationsOfOthers == count)
      }
      let recorded = try await harness.value(
        """
        SELECT (details ->> 'notificationsOfOthers')::bigint AS value FROM support_actions
        WHERE action = 'erase-customer'
        """, as: Int.self)
      #expect(recorded == count)
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
    }
  }

  @Test func `a replay that read the notification before the erasure writes nothing`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let waiting = try await harness.waits(.unknownApp, token: user)
      var entry = try harness.service.notifications.entry(for: waiting.bought.notification.signedPayload)
      entry.cause = .replay(try #require(entry.notification), nil, by: nil)
      try await harness.erase(user.uuidString)
      let receipt = try await harness.service.replay.ledger.record(entry)
      #expect(receipt.outcome == "erased")
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.count("transactions") == 0)
    }
  }
}

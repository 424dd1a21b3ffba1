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
  /// Why the notification waits.
  enum Cause: String, CaseIterable {
    case unknownApp = "unknown_app"
    case unknownEnvironment = "unknown_environment"
    case unknownProduct = "unknown_product"
    /// The transaction in it was signed under a root that is not trusted yet.
    case unknownRoot = "failed"

    /// A configuration under which it waits; ``TestApps/json`` is the right one.
    var configuration: String {
      switch self {
      case .unknownApp: TestApps.json.replacing("150000000", with: "159999999")
      case .unknownEnvironment:
        TestApps.json.replacing(
          #""appAppleID": 1500000001"#, with: #""environments": ["Sandbox"], "appAppleID": 1500000001"#)
      case .unknownProduct:
        TestApps.json.replacing(
          #""com.example.climbing.annual": { "tier": "premium" },"#, with: "")
      case .unknownRoot: TestApps.json
      }
    }
  }

  @Test(arguments: Cause.allCases)
  func `an erased user does not come back by a notification that waited`(cause: Cause) async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let waiting = try await harness.waits(cause, token: user)
      try await harness.erase(user.uuidString)
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.outcome(of: waiting.uuid) == "erased")
      try await harness.trusting(waiting.root) { await $0.replayWaiting() }
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await !harness.isPremium(user))
    }
  }

  @Test(arguments: Cause.allCases)
  func `a user whom only a waiting notification names can be erased, and a renewal brings nothing back`(
    cause: Cause
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

  @Test(arguments: Cause.allCases)
  func `a device that is named like a user does not hide the user whom only a waiting notification names`(
    cause: Cause
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
      #expect(try await harness.outcome(of: waiting.uuid) == "erased")
      #expect(try await harness.tables(with: id) == ["grants"])
      // Nothing names the user any more, and the device is found alone.
      #expect(try await harness.desk.exportCustomer(id).kinds == ["device"])
    }
  }

  @Test(arguments: Cause.allCases)
  func `the export of a user has the notifications that wait`(cause: Cause) async throws {
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
      #expect(try await harness.outcome(of: waiting.uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.isPremium(other))
    }
  }

  @Test(arguments: [Cause.unknownApp, .unknownEnvironment, .unknownRoot])
  func `a refund that waits for another customer's purchase outlives the erasure of its former user`(
    cause: Cause
  ) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer(buys: TestApps.annual)
      let id = bought.originalTransactionID
      let other = UUID()
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.transfer(id, to: other.uuidString, by: ada, isForced: true)
      harness.clock.advance(days: 1)
      let waiting = try await harness.waits(cause, with: harness.store.perform(.refundLatest, on: id))
      let dry = try await harness.desk.eraseCustomer(user.uuidString, by: ada, isDryRun: true)
      #expect(dry.description.contains("notifications of other customers: 2 (they stay"), "\(dry)")
      #expect(dry.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(dry)")
      let report = try await harness.erase(user.uuidString)
      #expect(report.erased.first?.notificationsOfOthers == 2)
      #expect(report.erased.first?.rows["notifications"] == nil)
      #expect(try await harness.outcome(of: waiting.uuid) == cause.rawValue)
      #expect(try await harness.isPremium(other))

      try await harness.trusting(waiting.root) { await $0.replayWaiting() }
      #expect(try await harness.outcome(of: waiting.uuid) == "applied")
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await !harness.isPremium(other))
      // The notification that was processed before the erasure can be replayed, too.
      let first = try #require(UUID(uuidString: bought.notification.uuid))
      #expect(try await harness.service.replay(first, by: ada).outcome == "unchanged")
      #expect(try await harness.row(of: id).userID == other)
      #expect(try await harness.count("transactions WHERE app_account_token IS NOT NULL") == 0)
      #expect(try await harness.tables(with: user.uuidString) == ["notifications"])
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
    }
  }

  @Test
  func
    `a user whom only a waiting refund of another customer's purchase names is erased, and the refund counts`()
    async throws
  {
    try await withHarness { harness in
      let (user, owner) = (UUID(), UUID())
      let bought = try harness.buy(TestApps.annual)
      let id = bought.originalTransactionID
      let proof = [bought.signedTransaction]
      let token = try await harness.token(for: owner)
      #expect(try await harness.sync(proof, user: owner, token: token).bool("isPremium") == true)
      harness.clock.advance(days: 1)
      var refunded = bought.transaction
      refunded.appAccountToken = user
      refunded.revocationDate = harness.clock.now
      refunded.signedDate = harness.clock.now
      let uuid = UUID().uuidString.lowercased()
      let payload = try harness.notification(uuid, with: harness.sign(refunded))
      try await harness.receives(payload, uuid, under: .unknownApp)
      // The purchase is not a part of the user's data.
      let export = try await harness.desk.exportCustomer(user.uuidString)
      #expect(export.tables.isEmpty, "\(export.tables.map(\.table))")

      #expect(try await harness.erase(user.uuidString).erased.first?.notificationsOfOthers == 1)
      #expect(try await refusal { try await harness.erase(user.uuidString) } == .notFound)
      #expect(try await harness.outcome(of: uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(of: uuid) == "applied")
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled" && row.userID == owner)
      #expect(try await !harness.isPremium(owner))
      #expect(try await harness.tables(with: user.uuidString) == ["notifications"])
    }
  }

  @Test func `a refund that waits for a shared purchase ends the access of the device that inherits it`()
    async throws
  {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      let waiting = try await harness.waits(.unknownApp, with: harness.store.perform(.refundLatest, on: id))
      try await harness.erase("old-phone")
      #expect(try await harness.row(of: id).deviceID == "new-phone")
      #expect(try await harness.outcome(of: waiting.uuid) == "unknown_app")
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(of: waiting.uuid) == "applied")
      let row = try await harness.row(of: id)
      #expect(row.status == "cancelled" && row.deviceID == "new-phone")
    }
  }

  @Test func `a refund that waits ends the access of a device that shares the purchase without a proof`()
    async throws
  {
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let id = bought.originalTransactionID
      try await harness.arrives(bought)
      _ = try await harness.device("phone", shows: bought)
      // As a build that knows the transaction's id alone, under "clientWrites": "accept".
      _ = try await harness.pool.query(
        """
        INSERT INTO purchase_devices (original_transaction_id, device_id, bundle_id, since, proved_at, is_barred, is_proven)
        VALUES (\(id), 'old-build', \(TestApps.family), now(), now(), false, false)
        """)
      func hasAccess() async throws -> Bool? {
        try await harness.entitlements("old-build", of: TestApps.family).bool("entitlements.isAccessGranted")
      }
      harness.clock.advance(seconds: 60)
      let waiting = try await harness.waits(.unknownApp, with: harness.store.perform(.refundLatest, on: id))
      let report = try await harness.erase("phone")
      #expect(report.erased.first?.rows["notifications"] == 1)
      // It inherits nothing, and what was processed before is reduced.
      #expect(try await harness.row(of: id).deviceID == nil)
      #expect(try await harness.count("notifications WHERE envelope_claims <> '{}'") == 1)
      #expect(try await harness.outcome(of: waiting.uuid) == "unknown_app")
      #expect(try await hasAccess() == true)
      await harness.service.replayWaiting()
      #expect(try await harness.outcome(of: waiting.uuid) == "applied")
      #expect(try await harness.row(of: id).status == "cancelled")
      #expect(try await hasAccess() == false)
      #expect(try await harness.count("notifications WHERE envelope_claims <> '{}'") == 0)
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

/// A notification that waits.
private struct Waiting {
  /// The event that it tells of.
  var bought: SignedOutcome
  var uuid: String
  /// The root under which its transaction was signed; `nil` for the usual one.
  var root: SigningAuthority?
}

extension Harness {
  /// Buys the annual subscription, and receives its notification where it cannot be processed.
  fileprivate func waits(_ cause: WaitingNotificationTests.Cause, token: UUID) async throws -> Waiting {
    try await waits(cause, with: buy(TestApps.annual, token: token))
  }

  /// Receives the notification of an event where it cannot be processed.
  fileprivate func waits(
    _ cause: WaitingNotificationTests.Cause, with event: SignedOutcome
  ) async throws -> Waiting {
    var waiting = Waiting(bought: event, uuid: event.notification.uuid)
    var payload = event.notification.signedPayload
    if cause == .unknownRoot {
      let root = try SigningAuthority()
      waiting.root = root
      waiting.uuid = UUID().uuidString.lowercased()
      payload = try notification(waiting.uuid, with: root.signer.sign(event.transaction))
    }
    try await receives(payload, waiting.uuid, under: cause)
    return waiting
  }

  /// A signed notification of the app for users.
  fileprivate func notification(
    _ uuid: String, with signedTransaction: String, renewal: String? = nil
  ) throws -> String {
    var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
    data.appAppleId = 1_500_000_001
    data.signedTransactionInfo = signedTransaction
    data.signedRenewalInfo = renewal
    var payload = NotificationPayload(
      notificationType: .subscribed, notificationUUID: uuid, signedDate: clock.now)
    payload.data = data
    return try store.identity.authority.signer.sign(payload)
  }

  /// Receives a notification where it cannot be processed.
  fileprivate func receives(
    _ payload: String, _ uuid: String, under cause: WaitingNotificationTests.Cause
  ) async throws {
    let mistaken = try await service(configuration: cause.configuration)
    try await serving(mistaken) { address in
      let answer = try await send(
        .post, "/api/v1/subscriptions/webhook", json: #"{"signedPayload": "\#(payload)"}"#, to: address)
      #expect(answer.status == 200)
    }
    await mistaken.close()
    #expect(try await outcome(of: uuid) == cause.rawValue)
  }

  /// Inserts notifications that wait and whose token is a user's.
  /// - Parameter purchase: the purchase of all, which only the claims name; `nil`: each is about a purchase of its own.
  func keepWaiting(
    _ count: Int, naming user: UUID, of bundleID: String, because cause: WaitingNotificationTests.Cause,
    about purchase: String? = nil
  ) async throws {
    _ = try await pool.query(
      "INSERT INTO jws_headers (header, sha256) VALUES ('h', 'h') ON CONFLICT DO NOTHING")
    _ = try await pool.query(
      """
      INSERT INTO notifications (notification_uuid, type, bundle_id, environment, original_transaction_id, signed_at,
        received_at, outcome, envelope_header, envelope_claims, envelope_signature, transaction_header,
        transaction_claims, transaction_signature)
      SELECT gen_random_uuid(), 'SUBSCRIBED', \(bundleID)::text, 'Production',
        CASE WHEN \(purchase)::text IS NULL THEN purchase END, now(), now(),
        \(cause.rawValue)::text, header, '{"notificationType": "SUBSCRIBED"}', 'x', header,
        jsonb_build_object('originalTransactionId', purchase, 'appAccountToken', \(user)::uuid)::text, 'x'
      FROM (
        SELECT coalesce(\(purchase)::text, (910000000000000 + n)::text) AS purchase, (SELECT max(id) FROM jws_headers) AS header
        FROM generate_series(1, \(count)) AS n) AS new
      """)
  }

  /// The word in `notifications.outcome`.
  fileprivate func outcome(of uuid: String) async throws -> String {
    try await value(
      "SELECT outcome AS value FROM notifications WHERE notification_uuid = \(uuid)::text::uuid")
  }

  /// Runs a server that trusts another root too.
  fileprivate func trusting(_ root: SigningAuthority?, _ body: (Service) async throws -> Void) async throws {
    guard let root else { return try await body(service) }
    let file = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID()).der")
    try Data(root.rootDER).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let roots = try #require(environment["APP_STORE_ROOTS"])
    let trusting = try await service(
      configuration: TestApps.json, settings: ["APP_STORE_ROOTS": "\(roots):\(file.path)"])
    try await body(trusting)
    await trusting.close()
  }
}

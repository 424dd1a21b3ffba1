import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

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
      case .unknownApp: TestApps.json.replacing("1500000001", with: "1599999999")
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

  @Test func `a replay that read the notification before the erasure writes nothing`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let waiting = try await harness.waits(.unknownApp, token: user)
      var entry = try harness.service.notifications.entry(for: waiting.bought.notification.signedPayload)
      entry.isReplay = true
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
  var bought: SignedOutcome
  var uuid: String
  /// The root under which its transaction was signed; `nil` for the usual one.
  var root: SigningAuthority?
}

extension Harness {
  /// Buys the annual subscription, and receives its notification where it cannot be processed.
  fileprivate func waits(_ cause: WaitingNotificationTests.Cause, token: UUID) async throws -> Waiting {
    let bought = try buy(TestApps.annual, token: token)
    let mistaken = try await service(configuration: cause.configuration)
    var waiting = Waiting(bought: bought, uuid: bought.notification.uuid)
    var payload = bought.notification.signedPayload
    if cause == .unknownRoot {
      let root = try SigningAuthority()
      waiting.root = root
      waiting.uuid = UUID().uuidString.lowercased()
      var data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      data.appAppleId = 1_500_000_001
      data.signedTransactionInfo = try root.signer.sign(bought.transaction)
      var notification = NotificationPayload(
        notificationType: .subscribed, notificationUUID: waiting.uuid, signedDate: clock.now)
      notification.data = data
      payload = try store.identity.authority.signer.sign(notification)
    }
    let sent = payload
    try await serving(mistaken) { address in
      let answer = try await send(
        .post, "/api/v1/subscriptions/webhook", json: #"{"signedPayload": "\#(sent)"}"#, to: address)
      #expect(answer.status == 200)
    }
    await mistaken.close()
    #expect(try await outcome(of: waiting.uuid) == cause.rawValue)
    return waiting
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

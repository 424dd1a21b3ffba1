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

/// A notification that waits.
struct WaitingNotification {
  /// The event that it tells of.
  var bought: SignedOutcome
  var uuid: String
  /// The root under which its transaction was signed; `nil` for the usual one.
  var root: SigningAuthority?

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
}

extension Harness {
  /// Buys the annual subscription, and receives its notification where it cannot be processed.
  func waits(_ cause: WaitingNotification.Cause, token: UUID) async throws -> WaitingNotification {
    try await waits(cause, with: buy(TestApps.annual, token: token))
  }

  /// Receives the notification of an event where it cannot be processed.
  func waits(
    _ cause: WaitingNotification.Cause, with event: SignedOutcome
  ) async throws -> WaitingNotification {
    var waiting = WaitingNotification(bought: event, uuid: event.notification.uuid)
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
  func notification(
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
  func receives(
    _ payload: String, _ uuid: String, under cause: WaitingNotification.Cause
  ) async throws {
    let mistaken = try await service(configuration: cause.configuration)
    try await serving(mistaken) { address in
      let answer = try await send(
        .post, "/api/v1/subscriptions/webhook", json: #"{"signedPayload": "\#(payload)"}"#, to: address)
      #expect(answer.status == 200)
    }
    await mistaken.close()
    #expect(try await outcome(ofNotification: uuid) == cause.rawValue)
  }

  /// Inserts notifications that wait and whose token is a user's.
  /// - Parameter purchase: the purchase of all, which only the claims name; `nil`: each is about a purchase of its own.
  func keepWaiting(
    _ count: Int, naming user: UUID, of bundleID: String, because cause: WaitingNotification.Cause,
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
  func outcome(ofNotification uuid: String) async throws -> String {
    try await value(
      "SELECT outcome AS value FROM notifications WHERE notification_uuid = \(uuid)::text::uuid")
  }

  /// Runs a server that trusts another root too.
  func trusting(_ root: SigningAuthority?, _ body: (Service) async throws -> Void) async throws {
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

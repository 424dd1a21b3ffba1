import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

/// What the second server gets of the notifications of an erased customer's purchases.
@Suite struct ForwardingAfterErasureTests {
  @Test func `of an erased customer nothing is forwarded, and of the next owner's time every notification`()
    async throws
  {
    try await withSecondServer(of: "Climbing") { harness, receiver in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      try await harness.erase(user.uuidString)
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(days: 1)
      try await harness.happens(.setAutoRenew(false), to: id)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.isEmpty)
      #expect(try await harness.count("outbox WHERE destination = 'notification'") == 0)

      let next = UUID()
      let proof = try await harness.sync(
        [bought.signedTransaction], user: next, token: harness.token(for: next))
      #expect(proof.bool("isPremium") == true)
      harness.clock.advance(days: 1)
      let changed = try await harness.happens(.setAutoRenew(true), to: id)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.payloads == [changed.notification.signedPayload])
      #expect(try await harness.row(of: id).userID == next)
      // Apple's payload has the token that Apple knows; nothing else has.
      #expect(try await harness.tables(with: user.uuidString) == ["notifications"])
      #expect(try await harness.count("transactions WHERE app_account_token IS NOT NULL") == 0)
      // The payloads from before the next owner stay erased.
      #expect(try await harness.count("notifications WHERE envelope_signature = ''") == 2)
    }
  }

  @Test func `the second server gets the notifications of the device that inherits a purchase`() async throws
  {
    try await withSecondServer(of: "Family") { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("old-phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("new-phone", shows: bought)
      try await harness.erase("old-phone")
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "new-phone")
      harness.clock.advance(days: 1)
      let changed = try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.payloads == [changed.notification.signedPayload])
    }
  }

  @Test func `a row that names an erased notification is not sent`() async throws {
    try await withSecondServer(of: "Climbing") { harness, receiver in
      let (user, _) = try await harness.customer()
      let rows = try await harness.pool.query(
        "SELECT endpoint, key FROM outbox WHERE destination = 'notification'")
      let (endpoint, key) = try (
        rows[0].decode("endpoint", as: String.self), rows[0].decode("key", as: String.self)
      )
      try await harness.erase(user.uuidString)
      // As if a backup of the outbox alone were restored.
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload)
        VALUES ('notification', \(key), \(TestApps.climbing), \(endpoint), '{}')
        """)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.isEmpty)
    }
  }
}

extension WebhookReceiver {
  /// The forwarded notifications.
  fileprivate var payloads: [String] { events.compactMap { $0.value("signedPayload") as? String } }
}

/// Runs a test with a receiptd that forwards the notifications of one app.
private func withSecondServer(
  of app: String, _ body: (Harness, WebhookReceiver) async throws -> Void
) async throws {
  func configuration(_ receiver: WebhookReceiver) -> String {
    TestApps.json.replacing(
      "\"name\": \"\(app)\",",
      with: """
        "name": "\(app)", "forwardNotifications": { "url": "\(receiver.url)",
          "secretEnv": "TEST_WEBHOOK_SECRET", "allowPrivateAddresses": true },
        """)
  }
  try await withReceiver(configuration: configuration, body)
}

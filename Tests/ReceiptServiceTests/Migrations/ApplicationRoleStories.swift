import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

@testable import Deliveries
@testable import Numbers
@testable import ReceiptService
@testable import Support

/// All actions of a running service as the role `receiptd_app`.
@Suite(.timeLimit(.minutes(10))) struct ApplicationRoleStories {
  @Test func `all actions of the service succeed as receiptd_app on a plain database`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await Self.story(database, user: UUID())
    }
  }

  @Test func `all actions of the service succeed as receiptd_app with row level security, as on Supabase`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      _ = try await supabase.pool.query("UPDATE profiles SET premium_expires_at = NULL")
      try await Self.story(supabase.database, user: supabase.users[0])
      let others = try await supabase.pool.query(
        "SELECT count(*) FROM profiles WHERE username LIKE '%@example.com'")[0]
      #expect(try others.decode("count", as: Int.self) == 3)
    }
  }

  private static func story(_ database: TestDatabase, user: UUID) async throws {
    let receiver = try WebhookReceiver()
    let harness = try await Harness(
      databaseURL: database.uri(role: "receiptd_app"),
      configuration: WebhookReceiver.configuration([WebhookReceiver.webhook(receiver.url)]).replacing(
        #""grace": { "days": 7"#,
        with: #""trial": { "days": 30, "features": { "childDevices": 5 } }, "grace": { "days": 7"#),
      environment: [
        "TEST_WEBHOOK_SECRET": WebhookReceiver.secret, "NOTIFICATION_RETENTION_MONTHS": "7",
        "TRANSACTION_RETENTION_MONTHS": "7",
      ], ownerURL: database.uri)
    do {
      let session = try await harness.service.pool.query("SELECT session_user::text AS role")[0]
      #expect(try session.decode("role", as: String.self) == "receiptd_app")
      try await harness.service.deliveries.outbox.register()
      try await subscriber(user, harness, receiver)
      try await devices(harness)
      try await support(harness)
      try await jobs(harness)
    } catch {
      await harness.stop()
      await receiver.stop()
      throw error
    }
    await harness.stop()
    await receiver.stop()
  }

  /// Calls webhook, validate and profile, and delivers.
  private static func subscriber(_ user: UUID, _ harness: Harness, _ receiver: WebhookReceiver) async throws {
    #expect(try await harness.send(.get, "/readyz", to: harness.adminAddress).status == 200)
    let bought = try harness.buy(token: user)
    try await harness.arrives(bought)
    let token = try await harness.token(for: user)
    let shown = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
    #expect(shown.string("subscription.status") == "active")
    #expect(shown.string("entitlements.entitlementToken") != nil)
    #expect(try await harness.sync([bought.signedTransaction], user: user, token: token).status == 200)
    #expect(try await harness.isPremium(user))
    #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
    let preferences = try await harness.pool.query(
      "SELECT is_premium FROM user_preferences WHERE user_id = \(user)")[0]
    #expect(try preferences.decode("is_premium", as: Bool.self))
    try await harness.service.deliveries.outbox.run()
    #expect(receiver.events.count == 1)

    harness.clock.set(try #require(bought.transaction.expiresDate))
    try await harness.happens(.renew, to: bought.originalTransactionID)
    try await harness.happens(.refundLatest, to: bought.originalTransactionID)
    #expect(try await !harness.isPremium(user))
    #expect(try await harness.profileRow(of: user)?.product == nil)
  }

  /// Calls the routes of trials, child devices and events.
  private static func devices(_ harness: Harness) async throws {
    let app = "?bundleID=\(TestApps.family)"
    #expect(try await harness.launch("phone", bundleID: TestApps.family, of: TestApps.family).status == 201)
    let child = "/api/v1/devices/phone/children"
    #expect(
      try await harness.send(.post, child + app, json: #"{"childDeviceID": "tablet"}"#).status == 201)
    #expect(try await harness.send(.get, child + app).children == ["tablet active"])
    #expect(try await harness.send(.delete, child + "/tablet" + app).status < 300)
    _ = try await harness.deviceBuys("phone")
    #expect(
      try await harness.send(.get, "/api/v1/devices/phone/entitlements" + app).string("entitlements.tier")
        == "individual")
    let secret = ScreenTime.secret(1)
    let tablet = "/api/v1/devices/tablet/children" + app
    #expect(try await harness.send(.get, tablet, secret: secret).status == 200)
    #expect(try await harness.send(.get, tablet).status == 401)
    let launched = try await harness.launch(
      "tablet", bundleID: TestApps.family, of: TestApps.family, secret: ScreenTime.secret(2))
    #expect(launched.status == 201)
    let event = """
      {"bundleID": "\(TestApps.family)", "customerID": "phone",
       "events": [{"name": "paywall_shown", "at": "\(harness.clock.now.ISO8601Format())"}]}
      """
    #expect(try await harness.send(.post, "/api/v1/events", json: event).status == 202)
    #expect(
      try await harness.send(
        .post, "/api/v1/consent",
        json: #"{"consent": true, "deviceID": "tablet", "bundleID": "\#(TestApps.family)"}"#,
        secret: ScreenTime.secret(2)
      ).status == 200)
  }

  /// Performs all support actions.
  private static func support(_ harness: Harness) async throws {
    func ask(_ path: String, _ members: [String: Any]) async throws -> Answer {
      let author = ["by": "ada", "reason": "ticket 812"]
      let body = try JSONSerialization.data(withJSONObject: members.merging(author) { mine, _ in mine })
      let answer = try await harness.send(
        .post, "/support/v1/" + path, json: String(decoding: body, as: UTF8.self),
        token: Harness.supportToken,
        to: harness.adminAddress)
      #expect(answer.status < 300, "\(path): \(answer.code ?? "")")
      return answer
    }
    let user = UUID().uuidString.lowercased()
    let bought = try harness.buy()
    try await harness.arrives(bought)
    _ = try await ask(
      "transfer", ["originalTransactionID": bought.originalTransactionID, "to": user, "force": true])
    _ = try await ask("refresh", ["id": user])
    let order = try harness.buy().orderID ?? ""
    let found = try await harness.send(
      .get, "/support/v1/find/\(order)", token: Harness.supportToken, to: harness.adminAddress)
    #expect(found.string("outcome") == "found")
    _ = try await ask("extend-trial", ["deviceID": "phone", "bundleID": TestApps.family, "days": 7])
    let granted = try await ask(
      "grant", ["customer": "phone", "bundleID": TestApps.family, "tier": "family", "days": 7])
    _ = try await ask("revoke-grant", ["grant": try #require(granted.string("grant"))])
    _ = try await ask("reset-device-secret", ["deviceID": "tablet", "bundleID": TestApps.family])
    for state in ["on", "off"] {
      _ = try await ask("free-access", ["state": state, "bundleID": TestApps.family])
    }
    try await harness.requestsRefund(of: bought)
    _ = try await ask("refund-answer", ["id": bought.originalTransactionID, "prefer": "none"])
    _ = try await harness.consent(true, of: try #require(UUID(uuidString: user)))
    #expect(try await harness.service.deliveries.storeCalls.run() == 1)
    #expect(try await harness.storeCalls().map(\.outcome) == ["sent"])
    _ = try await ask(
      "extend-renewal", ["originalTransactionID": bought.originalTransactionID, "days": 1, "reasonCode": 0])
    _ = try await harness.service.support.renewalExtensions.extendAll(
      ofProduct: TestApps.monthly, days: 1, reasonCode: 0, by: #require(Harness.ada))
    _ = try await ask("replay", ["notificationUUID": bought.notification.uuid])
    _ = try await ask("requeue", ["bundleID": TestApps.climbing])
    let report = try await harness.send(
      .get, "/support/v1/customer/phone", token: Harness.supportToken, to: harness.adminAddress)
    #expect(report.status == 200)
  }

  /// Runs the background jobs and the commands.
  private static func jobs(_ harness: Harness) async throws {
    let lost = try harness.buy()
    harness.clock.advance(seconds: 3_700)
    for report in await harness.service.reconcile() { #expect(report.failure == nil) }
    #expect(try await harness.row(of: lost.originalTransactionID).status == "active")
    harness.clock.advance(days: 40)
    _ = try await harness.service.sweep.run()
    _ = await harness.service.reconcile()
    _ = try await harness.service.deliveries.outbox.run()
    try await harness.service.deliveries.storeCalls.run()
    try await harness.service.support.renewalExtensions.run()
    #expect(try await !harness.countWhatIsDue().isEmpty)
    _ = try await harness.service.numbers.counter.deleteOldEvents()
    try await harness.service.retentionJob.run()
    _ = try await harness.service.rotateEntitlementKey(
      isLeaked: false, by: #require(Harness.makeAuthor("ada", "yearly")))
    var failures: [String] = []
    _ = await Doctor(environment: harness.environment).check { if !$0.isOK { failures.append($0.line) } }
    #expect(failures.filter { !$0.contains("clock") } == [])
  }
}

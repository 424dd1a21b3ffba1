import AppStoreSimulator
import Configuration
import Curl
import Foundation
import HTTP
import HTTPTypes
import Logging
import Postgres
import Subscriptions
import Testing
import Work

@testable import Deliveries
@testable import ReceiptService

@Suite struct WebhookTests {
  @Test func `an event has an id of its own, also after a restore set back the numbers of the outbox`()
    async throws
  {
    try await withWebhook { harness, receiver in
      for _ in 0..<2 {
        _ = try await harness.customer()
        try await harness.service.deliveries.outbox.run()
        _ = try await harness.pool.query("DELETE FROM outbox")
        _ = try await harness.pool.query(
          """
          SELECT setval('receiptd.outbox_changes', 1, false),
            setval(pg_get_serial_sequence('receiptd.outbox', 'id'), 1, false)
          """)
      }
      let ids = receiver.events.map(\.id)
      #expect(ids.count == 2 && Set(ids).count == 2)
      // The numbers are the same.
      #expect(Set(ids.map { $0.split(separator: "_").prefix(3) }).count == 1)
    }
  }

  @Test func `a webhook event has the customer's entitlements and a signature that OpenSSL verifies`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      let event = try #require(receiver.events.first)
      #expect(receiver.events.count == 1)
      let expected = try await receiver.signature(of: event, secret: WebhookReceiver.secret)
      #expect(event.signature == expected)
      #expect(event.timestamp == "\(Int(harness.clock.now.timeIntervalSince1970))")
      #expect(event.value("type") as? String == "customer.updated")
      #expect(event.value("timestamp") as? String == RFC3339.string(from: harness.clock.now))
      #expect(event.value("data.bundleID") as? String == TestApps.climbing)
      #expect(event.value("data.customer.kind") as? String == "user")
      #expect(event.value("data.customer.id") as? String == user.uuidString.lowercased())
      #expect(event.value("data.entitlements.tier") as? String == "premium")
      #expect(event.value("data.entitlements.isAccessGranted") as? Bool == true)
      #expect(
        event.value("data.subscription.originalTransactionID") as? String == bought.originalTransactionID)
      #expect(event.body.count < 20_000)

      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 2)
      #expect(receiver.events[1].id != event.id)
      #expect(receiver.events[1].value("data.entitlements.status") as? String == "cancelled")
    }
  }

  @Test func `a customer whose records cannot be read stops no delivery to others, and is tried again`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (broken, bought) = try await harness.customer()
      let (user, _) = try await harness.customer()
      func set(_ environment: String) async throws {
        _ = try await harness.pool.query(
          """
          UPDATE subscriptions SET environment = \(environment)
          WHERE original_transaction_id = \(bought.originalTransactionID)
          """)
      }
      // The word of a later build.
      try await set("Beta")
      try await harness.service.deliveries.outbox.run()
      func told() -> [String?] { receiver.events.map { $0.value("data.customer.id") as? String } }
      #expect(told() == [user.uuidString.lowercased()])
      let waiting = try await harness.pool.query(
        "SELECT attempts, last_error FROM outbox WHERE done_at IS NULL")
      #expect(waiting.count == 1)
      #expect(try waiting[0].decode("attempts") == 1)
      #expect(try waiting[0].decode("last_error", as: String.self).hasPrefix("receiptd cannot read"))
      try await set("Production")
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.outbox.run()
      #expect(told() == [user, broken].map { $0.uuidString.lowercased() })
    }
  }

  @Test
  func `a webhook event of 20 kB or more is given up with the reason and can be requeued when it is shorter`()
    async throws
  {
    let receiver = try WebhookReceiver()
    let configuration = WebhookReceiver.configuration([WebhookReceiver.webhook(receiver.url)])
    let long = configuration.replacing(
      #""insights": true"#, with: #""insights": "\#(String(repeating: "x", count: 20_000))""#)
    let environment = ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    try await withHarness(configuration: long, environment: environment) { harness in
      try await harness.service.deliveries.outbox.register()
      _ = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.isEmpty)
      let dead = try await harness.pool.query(
        "SELECT last_error FROM outbox WHERE dead_at IS NOT NULL")
      #expect(dead.count == 1)
      let reason = try dead[0].decode("last_error", as: String.self)
      #expect(reason.hasPrefix("the event has 20") && reason.hasSuffix("shorten the app's features"))

      let shorter = try await harness.service(configuration: configuration, settings: environment)
      try await shorter.deliveries.outbox.register()
      let answer = try await shorter.requeueDead(
        of: TestApps.climbing, by: #require(Harness.makeAuthor("ada", "ticket 812")))
      #expect(answer.description == "1 delivery requeued")
      try await shorter.deliveries.outbox.run()
      #expect(receiver.events.count == 1)
      await shorter.close()
    }
    await receiver.stop()
  }

  @Test func `a webhook event has a signature of each secret during a rotation`() async throws {
    let both = WebhookReceiver.secret + " " + WebhookReceiver.oldSecret
    try await withWebhook(secret: both) { harness, receiver in
      _ = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      let event = try #require(receiver.events.first)
      let signatures = event.signature.split(separator: " ").map(String.init)
      let new = try await receiver.signature(of: event, secret: WebhookReceiver.secret)
      let old = try await receiver.signature(of: event, secret: WebhookReceiver.oldSecret)
      #expect(signatures == [new, old])
    }
  }

  @Test
  func `a failed webhook is retried for days with the same id and a new timestamp, then given up`()
    async throws
  {
    try await withWebhook { harness, receiver in
      _ = try await harness.customer()
      receiver.answer(500, 302, 404, 200)
      for _ in 0..<4 {
        try await harness.service.deliveries.outbox.run()
        harness.clock.advance(seconds: 3_600)
      }
      #expect(receiver.events.count == 4)
      #expect(Set(receiver.events.map(\.id)).count == 1)
      #expect(Set(receiver.events.map(\.timestamp)).count == 4)
      #expect(try await harness.outboxStates() == ["delivered": 1])

      _ = try await harness.customer()
      for _ in 0..<120 {
        receiver.answer(500)
        try await harness.service.deliveries.outbox.run()
        harness.clock.advance(seconds: 3_600)
      }
      #expect(try await harness.outboxStates() == ["delivered": 1, "dead": 1])
      // The backoff ends at one to two hours.
      #expect((48...110).contains(receiver.events.count - 4))
    }
  }

  @Test func `a webhook destination is retried after its Retry-After`() async throws {
    try await withWebhook { harness, receiver in
      _ = try await harness.customer()
      receiver.answer(Response(status: .tooManyRequests, headers: [.retryAfter: "300"]))
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(seconds: 299)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 1)
      harness.clock.advance(seconds: 2)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 2)
    }
  }

  @Test func `a 410 response disables the webhook until support requeues, and no row is lost`() async throws {
    try await withWebhook { harness, receiver in
      _ = try await harness.customer()
      receiver.answer(410)
      try await harness.service.deliveries.outbox.run()
      for _ in 0..<3 {
        _ = try await harness.customer()
        harness.clock.advance(days: 10)
        try await harness.service.deliveries.outbox.run()
      }
      #expect(receiver.events.count == 1)
      #expect(try await harness.outboxStates() == ["disabled": 4])
      let entry = try #require(try await harness.service.deliveries.outbox.list().first)
      #expect(entry.error == "HTTP 410 Gone")
      _ = try await harness.service.deliveries.outbox.requeue(id: entry.id, by: #require(Harness.ada))
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 5)
      #expect(try await harness.outboxStates() == ["delivered": 4])
    }
  }

  @Test func `an unreachable webhook does not delay the others`() async throws {
    let receiver = try WebhookReceiver()
    try await withHarness(
      configuration: WebhookReceiver.configuration([
        WebhookReceiver.webhook("http://127.0.0.1:1/hook"), WebhookReceiver.webhook(receiver.url),
      ]), environment: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    ) { harness in
      try await harness.service.deliveries.outbox.register()
      for _ in 0..<20 { _ = try await harness.customer() }
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == 20)
      #expect(try await harness.outboxStates() == ["delivered": 20, "waiting": 20])
    }
    await receiver.stop()
  }

  @Test func `a webhook to a private address is refused unless the configuration allows it`() async throws {
    let receiver = try WebhookReceiver()
    let url = receiver.url.replacing("http://", with: "https://")
    try await withHarness(
      configuration: WebhookReceiver.configuration([WebhookReceiver.webhook(url, isPrivate: false)]),
      environment: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    ) { harness in
      try await harness.service.deliveries.outbox.register()
      _ = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      let entry = try #require(try await harness.service.deliveries.outbox.list().first)
      #expect(entry.error?.contains("private address") == true)
      #expect(receiver.events.isEmpty)
    }
    await receiver.stop()
  }

  @Test func `no log line and no row of the outbox has a webhook's secret or URL query`() async throws {
    let receiver = try WebhookReceiver()
    let url = receiver.url + "?token=sesame"
    let variables = ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    try await withHarness(
      configuration: WebhookReceiver.configuration([
        WebhookReceiver.webhook(url), WebhookReceiver.webhook("http://127.0.0.1:1/?token=sesame"),
      ]), environment: variables
    ) { harness in
      let logs = LogLines()
      var logger = Logger(label: "tests") { _ in logs }
      logger.logLevel = .trace
      let catalog = harness.service.deliveries.outbox.catalog
      let clients = OutboxClients(catalog)
      let outbox = Outbox(
        catalog: catalog,
        senders: try catalog.outboxSenders(
          environment: variables, clients: clients, clock: harness.clock.service,
          logger: logger), metrics: harness.service.metrics.deliveries,
        WorkContext(
          pool: harness.pool, clock: harness.clock.service, logger: logger,
          metrics: harness.service.metrics.work))
      try await outbox.register()
      for answer in [500, 503, 410] {
        _ = try await harness.customer()
        receiver.answer(answer)
        try await outbox.run()
        harness.clock.advance(days: 5)
      }
      try await outbox.run()
      await clients.shutDown()
      let rows = try await harness.pool.query("SELECT support_outbox::text AS row FROM support_outbox")
      let output = try logs.all + rows.map { try $0.decode("row", as: String.self) }
      #expect(logs.all.count >= 3)
      for line in output {
        #expect(!line.contains("sesame"))
        #expect(!line.contains(WebhookReceiver.secret.dropFirst(6)))
      }
    }
    await receiver.stop()
  }
}

@Suite struct WebhookSecretTests {
  @Test(arguments: [
    ("", "is empty"), ("hush", "must be whsec_ and the base64 of"), ("whsec_%%%", "is not base64"),
    ("whsec_" + Data(count: 23).base64EncodedString(), "must hold 24 to 64 bytes, holds 23"),
    ("whsec_" + Data(count: 65).base64EncodedString(), "must hold 24 to 64 bytes, holds 65"),
    (WebhookReceiver.secret + ",hush", "must be whsec_ and the base64 of"),
  ])
  func `an invalid webhook secret is reported by its environment variable and not shown`(
    text: String, reason: String
  ) {
    let endpoint = WebhookEndpoint(url: "https://example.com/hook", secretEnvironmentVariable: "HOOK")
    #expect {
      _ = try WebhookSender(
        endpoint, environment: ["HOOK": text], client: CurlClient(), clock: .system)
    } throws: { error in
      guard let problem = error as? ConfigurationProblem else { return false }
      let isToldApart = text.isEmpty ? problem.reason.contains("is not set") : problem.reason.contains(reason)
      return problem.subject == "HOOK" && isToldApart && (text.isEmpty || !problem.reason.contains(text))
    }
  }

  @Test func `the example of Standard Webhooks has the expected signature`() throws {
    // Standard Webhooks 1.0, the example of the reference libraries.
    let secrets = try WebhookSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    let signature = secrets.signature(
      id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: Array(#"{"test": 2432232314}"#.utf8)
    )
    #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
  }
}

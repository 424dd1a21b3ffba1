import Actions
import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

@Suite struct ReplayEventsTests {
  @Test func `a span is sent again with the same ids and bodies, and recorded`() async throws {
    try await withEvents { harness, receiver in
      let start = harness.clock.now
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      harness.clock.advance(days: 1)
      let author = try #require(Harness.ada)
      let service = harness.service
      let counted = try await service.replayEvents(
        in: start..<harness.clock.now, isDryRun: true, by: author)
      #expect(
        counted.description == "cancelled: 1\nsubscription.started: 1\n2 events would be sent again")
      try await service.deliveries.outbox.run()
      #expect(receiver.events.count == 2)

      let queued = try await service.replayEvents(in: start..<(start + 3_600), by: author)
      #expect(queued.description == "subscription.started: 1\n1 event queued again")
      try await service.deliveries.outbox.run()
      #expect(receiver.types == ["cancelled", "subscription.started", "subscription.started"])
      let started = receiver.events.filter { $0.type == "subscription.started" }
      #expect(started[0].id == started[1].id)
      #expect(started[0].body == started[1].body)
      #expect(started[0].timestamp != started[1].timestamp)
      #expect(try await harness.actions().map(\.action) == ["replay-events", "replay-events"])

      _ = try await service.replayEvents(
        in: start..<harness.clock.now, bundleID: TestApps.climbing, type: "cancelled", by: author)
      try await service.deliveries.outbox.run()
      #expect(receiver.types.filter { $0 == "cancelled" }.count == 2)
      await #expect(throws: SupportRefusal.self) {
        _ = try await service.replayEvents(in: start..<harness.clock.now, type: "unheard", by: author)
      }
    }
  }

  @Test func `an event that was too old to be sent is sent by a replay`() async throws {
    try await withEvents { harness, receiver in
      let bought = try harness.buy(token: UUID())
      harness.clock.advance(days: 10)
      try await harness.arrives(bought)
      try await harness.sweepAndDeliver()
      #expect(receiver.events.isEmpty)
      _ = try await harness.service.replayEvents(
        in: (harness.clock.now - 60)..<(harness.clock.now + 60), by: try #require(Harness.ada))
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.types == ["subscription.started"])
    }
  }

  @Test func `an event has the same body for good, also after a claim, a transfer and an erasure`()
    async throws
  {
    try await withEvents { harness, receiver in
      let ada = try #require(Harness.ada)
      let bought = try harness.buy()
      try await harness.arrives(bought)
      harness.clock.advance(seconds: 31)
      try await harness.service.deliveries.outbox.run()
      func replay() async throws {
        _ = try await harness.service.replayEvents(
          in: (harness.clock.now - 86_400)..<(harness.clock.now + 60), type: "subscription.started", by: ada)
        try await harness.service.deliveries.outbox.run()
      }
      let user = UUID()
      _ = try await harness.sync([bought.signedTransaction], user: user, token: harness.token(for: user))
      try await replay()
      try await harness.erase(user.uuidString)
      try await replay()
      let bodies = receiver.events.filter { $0.type == "subscription.started" }.map(\.body)
      #expect(bodies.count == 3)
      #expect(Set(bodies).count == 1)
      #expect(try receiver.first(.subscriptionStarted).value("data.customer") is NSNull)
    }
  }

  @Test func `an event of an erased customer is neither replayed nor requeued`() async throws {
    try await withEvents { harness, receiver in
      let ada = try #require(Harness.ada)
      let (user, _) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(user.uuidString)
      try await harness.service.deliveries.outbox.run()
      let span = (harness.clock.now - 60)..<(harness.clock.now + 60)
      let sent = receiver.events.count
      let replayed = try await harness.service.replayEvents(in: span, by: ada)
      #expect(replayed.description == "0 events queued again")
      // A replay that began before the erasure may have queued it.
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at)
        SELECT 'event', e.id::text, e.bundle_id, d.endpoint, '{}', now()
        FROM lifecycle_events e JOIN outbox_destinations d ON d.destination = 'event' AND d.bundle_id = e.bundle_id
        """)
      #expect(try await harness.service.requeueDead(of: TestApps.climbing, by: ada).requeued == 1)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.count == sent)
    }
  }

  @Test func `events and undelivered rows are deleted after 90 days`() async throws {
    try await withEvents { harness, receiver in
      _ = try await harness.customer()
      receiver.answer(410)
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(days: 89)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("lifecycle_events") == 1)
      #expect(try await harness.count("outbox") == 1)
      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("lifecycle_events") == 0)
      #expect(try await harness.count("outbox") == 0)
    }
  }
}

@Suite struct ForwardedNotificationTests {
  private static func configuration(_ receiver: WebhookReceiver) -> String {
    TestApps.json.replacing(
      #""name": "Climbing","#,
      with: #"""
        "name": "Climbing", "forwardNotifications": { "url": "\#(receiver.url)",
          "secretEnv": "TEST_WEBHOOK_SECRET", "allowPrivateAddresses": true },
        """#)
  }

  @Test func `a second server gets each notification as Apple posted it, once it is committed, with retries`()
    async throws
  {
    let receiver = try WebhookReceiver()
    let settings = ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    try await withHarness(configuration: Self.configuration(receiver), environment: settings) { harness in
      let logs = LogLines()
      let service = try await harness.service(
        configuration: Self.configuration(receiver), settings: settings, log: logs)
      try await service.deliveries.outbox.register()
      let bought = try harness.buy(token: UUID())
      for _ in 0..<2 { try await harness.arrives(bought) }
      receiver.answer(503)
      try await service.deliveries.outbox.run()
      harness.clock.advance(seconds: 60)
      try await service.deliveries.outbox.run()
      #expect(receiver.events.count == 2)
      for event in receiver.events {
        #expect(event.value("signedPayload") as? String == bought.notification.signedPayload)
        #expect(event.id == bought.notification.uuid.lowercased())
        let expected = try await receiver.signature(of: event, secret: WebhookReceiver.secret)
        #expect(event.signature == expected)
      }
      #expect(try await harness.count("outbox") == 0)
      let part = bought.notification.signedPayload.prefix(40)
      #expect(!logs.all.isEmpty)
      #expect(logs.all.allSatisfy { !$0.contains(part) })
      await service.close()
    }
    await receiver.stop()
  }
}

@Suite struct EventConfigurationTests {
  @Test(arguments: [
    (#""reminders": { "trialEndingDays": 0 }"#, "reminders.trialEndingDays"),
    (#""reminders": { "graceEndingDays": 2.5 }"#, "reminders.graceEndingDays"),
    (#""reminders": { "graceEnding": 2 }"#, "graceEnding"),
    (#""webhooks": [{ "url": "https://a.example", "secretEnv": "A", "events": ["unheard"] }]"#, "'unheard'"),
    (#""webhooks": [{ "url": "https://a.example", "secretEnv": "A", "events": [] }]"#, "must not be empty"),
    (#""forwardNotifications": { "url": "https://a.example" }"#, "secretEnv"),
    (#""forwardNotifications": { "url": "http://a.example", "secretEnv": "A" }"#, "must be https"),
    (#""forwardNotifications": { "url": "https://a.example", "secretEnv": "A", "events": [] }"#, "events"),
  ])
  func `a mistake in the settings of events is named`(text: String, named: String) throws {
    let json = TestApps.json.replacing(#""name": "Climbing","#, with: #""name": "Climbing", \#(text),"#)
    #expect {
      _ = try AppCatalog(json: Data(json.utf8), named: "apps.json")
    } throws: { "\($0)".contains(named) }
  }

  @Test func `without settings customers are reminded three and two days ahead`() throws {
    let app = try #require(AppCatalog(json: Data(TestApps.json.utf8), named: "apps.json")[TestApps.family])
    #expect(app.reminders.trialEndingDays == 3)
    #expect(app.reminders.graceEndingDays == 2)
    #expect(!app.hasLifecycleEvents)
  }
}

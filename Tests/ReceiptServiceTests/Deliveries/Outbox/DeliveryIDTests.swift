import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

/// A receiver drops an event whose id it has seen, even if its first response was an error.
@Suite struct DeliveryIDTests {
  @Test func `a state that changed since a failed attempt is sent under a new webhook id`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (_, bought) = try await harness.customer()
      receiver.answer(500, 500, 500)
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.outbox.run()
      // The state changes with time; no row has changed yet.
      harness.clock.set(try #require(bought.transaction.expiresDate) + 60)
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(seconds: 600)
      try await harness.service.deliveries.outbox.run()

      let events = receiver.events
      #expect(events.map { $0.status } == ["active", "active", "expired", "expired"])
      try #require(events.count == 4)
      #expect(events[0].id == events[1].id)
      #expect(events[0].body == events[1].body)
      #expect(events[1].id != events[2].id)
      #expect(events[2].id == events[3].id)
      #expect(events[2].body == events[3].body)
      #expect(events[1].value("timestamp") as? String != events[2].value("timestamp") as? String)
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `a state that changes back is sent under a third webhook id`() async throws {
    let receiver = try WebhookReceiver()
    let configuration = WebhookReceiver.configuration([WebhookReceiver.webhook(receiver.url)])
    let other = configuration.replacing(#""insights": true"#, with: #""insights": false"#)
    let environment = ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    try await withHarness(configuration: configuration, environment: environment) { harness in
      let changed = try await harness.service(configuration: other, settings: environment)
      try await harness.service.deliveries.outbox.register()
      _ = try await harness.customer()
      receiver.answer(500, 500)
      for service in [harness.service, changed, harness.service] {
        try await service.deliveries.outbox.run()
        harness.clock.advance(seconds: 60)
      }
      #expect(
        receiver.events.map { $0.value("data.entitlements.features.insights") as? Bool } == [
          true, false, true,
        ])
      #expect(Set(receiver.events.map(\.id)).count == 3)
      await changed.close()
    }
    await receiver.stop()
  }

  @Test func `a change committed between the claim and the read of the state gets its own webhook id`()
    async throws
  {
    try await withWebhook { harness, receiver in
      _ = try await harness.customer()
      receiver.answer(500)
      try await harness.service.deliveries.outbox.run()
      // A commit right after the second claim changes the customer's state.
      for statement in [
        """
        CREATE FUNCTION change_state() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          DELETE FROM public.subscriptions;
          UPDATE receiptd.outbox SET change = nextval('receiptd.outbox_changes'), attempts = 0 WHERE id = NEW.id;
          RETURN NULL;
        END
        $$
        """,
        """
        CREATE TRIGGER change_state AFTER UPDATE ON outbox FOR EACH ROW
        WHEN (OLD.claimed_by IS NULL AND NEW.claimed_by IS NOT NULL AND OLD.attempts = 1)
        EXECUTE FUNCTION change_state()
        """,
      ] { _ = try await harness.pool.query(Query(unescaped: statement)) }
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.outbox.run()

      #expect(receiver.events.first?.status == "active")
      #expect(receiver.events.last?.status != "active")
      #expect(receiver.events.count == 2)
      #expect(Set(receiver.events.map(\.id)).count == 2)
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `a change committed during a webhook request is sent afterwards under its own id`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (_, bought) = try await harness.customer()
      receiver.answer(500)
      receiver.meanwhile { try await harness.happens(.refundLatest, to: bought.originalTransactionID) }
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.map { $0.status } == ["active", "cancelled"])
      #expect(Set(receiver.events.map(\.id)).count == 2)
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }
}

extension WebhookReceiver.Event {
  fileprivate var status: String? { value("data.entitlements.status") as? String }
}

import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Deliveries
@testable import Ledger
@testable import ReceiptService

/// Each event once and only once: under repeats, reordering, replays, several servers, and a crash between commit and
/// delivery.
@Suite struct OnceOnlyTests {
  /// A year of one subscription. The notifications are not delivered.
  private func story(_ harness: Harness) throws -> (notifications: [SignedNotification], types: [String]) {
    var notifications: [SignedNotification] = []
    func note(_ outcome: SignedOutcome) { notifications += [outcome.notification] + outcome.others }
    var app = try #require(harness.store.app(TestApps.climbing))
    app.products[TestApps.annual]?.rank = 2
    harness.store.put(app)
    let bought = try harness.buy(TestApps.monthly, token: UUID())
    note(bought)
    func happens(_ command: SubscriptionCommand, afterDays days: Double) throws {
      harness.clock.advance(days: days)
      note(try harness.store.perform(command, on: bought.originalTransactionID))
    }
    try happens(.changeProduct(TestApps.annual), afterDays: 3)
    try happens(.setAutoRenew(false), afterDays: 0.2)
    try happens(.setAutoRenew(true), afterDays: 0.2)
    try happens(.refundLatest, afterDays: 0.2)
    try happens(.reverseRefund(transactionID: nil), afterDays: 0.2)
    try happens(.announcePrice(69_990), afterDays: 0.2)
    try happens(.acceptPrice, afterDays: 0.2)
    return (
      notifications,
      [
        "cancelled", "cancelled", "price_increase", "price_increase", "product_changed", "refund_reversed",
        "refunded", "subscription.started",
      ]
    )
  }

  @Test func `repeated notifications and replays send each event once`() async throws {
    try await withEvents { harness, receiver in
      let story = try story(harness)
      for notification in story.notifications {
        for _ in 0..<2 { await harness.arrives(notification) }
        try await harness.service.deliveries.outbox.run()
      }
      for notification in story.notifications { await harness.arrives(notification) }
      for row in try await harness.pool.query("SELECT notification_uuid FROM notifications") {
        _ = try await harness.service.replay(row.decode("notification_uuid"), by: #require(Harness.ada))
      }
      try await harness.sweepAndDeliver()
      #expect(receiver.types == story.types)
      #expect(Set(receiver.events.map(\.id)).count == story.types.count)
    }
  }

  /// What was over when receiptd learned it may be missing; nothing is told twice, and no transaction is missing.
  @Test(arguments: 1...12 as ClosedRange<UInt64>)
  func `in any order no event is told twice, and purchases and changes of product are told`(seed: UInt64)
    async throws
  {
    try await withEvents { harness, receiver in
      let story = try story(harness)
      var generator = SeededGenerator(seed: seed)
      for notification in story.notifications.shuffled(using: &generator) {
        await harness.arrives(notification)
        if Bool.random(using: &generator) { await harness.arrives(notification) }
        if Bool.random(using: &generator) { try await harness.service.deliveries.outbox.run() }
      }
      try await harness.sweepAndDeliver()
      #expect(Set(receiver.events.map(\.id)).count == receiver.events.count)
      #expect(receiver.types.filter { $0 == "cancelled" }.count <= 2)
      for type in ["subscription.started", "product_changed"] {
        #expect(receiver.types.filter { $0 == type }.count == 1)
      }
      #expect(Set(receiver.types).isSubset(of: story.types))
      // The reversal of a refund that was never told is not told.
      if !receiver.types.contains("refunded") { #expect(!receiver.types.contains("refund_reversed")) }
    }
  }

  @Test func `renewals in any order are told once each, and a change of product with the right one`()
    async throws
  {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      var outcomes = [try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)]
      let id = outcomes[0].originalTransactionID
      let moved = try harness.store.perform(.changeProduct(TestApps.individual), on: id)
      for _ in 0..<2 {
        harness.clock.advance(days: 30)
        outcomes.append(try harness.store.perform(.renew, on: id))
      }
      for place in [2, 0, 1] { try await harness.arrives(outcomes[place]) }
      try await harness.arrives(moved)
      let rows = try await harness.pool.query(
        "SELECT type, transaction_id FROM lifecycle_events ORDER BY occurred_at, type")
      let told = try rows.map {
        (try $0.decode("type", as: String.self), try $0.decode("transaction_id", as: String.self))
      }
      let expected = [
        ("subscription.started", outcomes[0]), ("product_changed", outcomes[1]), ("renewed", outcomes[1]),
        ("renewed", outcomes[2]),
      ]
      #expect(told.map(\.0) == expected.map(\.0))
      #expect(told.map(\.1) == expected.map { $0.1.transactionID })
      // Those of more than a week ago are written down, and not sent.
      harness.clock.advance(seconds: 31)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.types == ["renewed"])
    }
  }

  @Test func `an event that was committed before a crash is sent by another server, with the same id`()
    async throws
  {
    try await withEvents { harness, receiver in
      _ = try await harness.customer()
      // The process dies after the commit: nothing of it is left but the rows.
      let other = try await harness.service(
        configuration: EventApps.configuration(receiver),
        settings: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret])
      try await other.deliveries.outbox.run()
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.types == ["subscription.started"])

      // It dies during the request: the claim ends, and the receiver gets the same id again.
      _ = try await harness.customer()
      receiver.answer(500)
      try await harness.service.deliveries.outbox.run()
      _ = try await harness.pool.query(
        "UPDATE outbox SET claimed_by = gen_random_uuid(), claimed_until = \(harness.clock.now + 75)")
      try await other.deliveries.outbox.run()
      #expect(receiver.events.count == 2)
      harness.clock.advance(seconds: 76)
      try await other.deliveries.outbox.run()
      #expect(receiver.events.count == 3)
      #expect(receiver.events[1].id == receiver.events[2].id)
      #expect(receiver.events[1].body == receiver.events[2].body)
      #expect(try await harness.count("outbox") == 0)
      await other.close()
    }
  }

  @Test func `a change that is not committed sends no event`() async throws {
    try await withEvents { harness, receiver in
      for statement in [
        """
        CREATE FUNCTION refuse_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$
        """,
        "CREATE TRIGGER refuse BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION refuse_outbox()",
      ] { _ = try await harness.pool.query(Query(unescaped: statement)) }
      let bought = try harness.buy(token: UUID())
      let attempt = await harness.store.deliver(bought.notification.uuid)
      #expect(attempt?.outcome.status == 503)
      #expect(try await harness.count("subscriptions") == 0)
      #expect(try await harness.count("lifecycle_events") == 0)
      _ = try await harness.pool.query("DROP TRIGGER refuse ON outbox")
      try await harness.arrives(bought)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["subscription.started"])
    }
  }

  @Test func `several servers that sweep at once write each event of time once`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      for number in 1...5 { _ = try await harness.startTrial("phone-\(number)") }
      let other = try await harness.service(
        configuration: EventApps.configuration(receiver),
        settings: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret])
      harness.clock.set(try #require(bought.transaction.expiresDate) + 5)
      harness.clock.advance(days: 3)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for service in [harness.service, other, harness.service, other] {
          group.addTask {
            _ = try await service.sweep.run()
            try await service.deliveries.eventSweep.run()
            try await service.deliveries.outbox.run()
          }
        }
        try await group.waitForAll()
      }
      try await harness.sweepAndDeliver()
      let told = Dictionary(grouping: receiver.types, by: \.self).mapValues(\.count)
      #expect(told["expired"] == 1)
      #expect(told["trial.ended"] == 5)
      #expect(Set(receiver.events.map(\.id)).count == receiver.events.count)
      await other.close()
    }
  }

  @Test func `purchases from before the webhook, and old facts of a history, are written down and not sent`()
    async throws
  {
    try await withEvents { harness, receiver in
      let old = try harness.buy(token: UUID())
      harness.clock.advance(days: 20)
      try await harness.arrives(old)
      try await harness.sweepAndDeliver()
      #expect(receiver.events.isEmpty)
      #expect(try await harness.count("lifecycle_events") == 1)
      harness.clock.advance(days: 100)
      let renewed = try harness.store.perform(.renew, on: old.originalTransactionID)
      harness.clock.advance(days: 91)
      try await harness.arrives(renewed)
      let types = try await harness.pool.query("SELECT type FROM lifecycle_events WHERE type = 'renewed'")
      #expect(types.isEmpty)
    }
    let receiver = try WebhookReceiver()
    try await withHarness(
      configuration: EventApps.configuration(receiver),
      environment: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret]
    ) { harness in
      let bought = try harness.buy(token: UUID())
      harness.clock.advance(days: 1)
      try await harness.service.deliveries.outbox.register()
      try await harness.arrives(bought)
      try await harness.sweepAndDeliver()
      #expect(receiver.events.isEmpty)
      #expect(try await harness.count("lifecycle_events") == 1)
    }
    await receiver.stop()
  }

  @Test func `an end that a later purchase has overtaken is not told`() async throws {
    try await withEvents { harness, receiver in
      let user = UUID()
      let request = PurchaseRequest(
        bundleID: TestApps.climbing, productID: TestApps.monthly, accountID: "account-1",
        appAccountToken: user)
      let first = try harness.store.buy(request)
      try await harness.arrives(first)
      try await harness.sweepAndDeliver()
      let off = try harness.store.perform(.setAutoRenew(false), on: first.originalTransactionID)
      harness.clock.set(try #require(first.transaction.expiresDate) + 5)
      let ended = try harness.store.perform(.expire(nil), on: first.originalTransactionID)
      harness.clock.advance(days: 2)
      let again = try harness.store.buy(request)
      #expect(again.originalTransactionID == first.originalTransactionID)
      for outcome in [again, ended, off] { try await harness.arrives(outcome) }
      try await harness.timePasses(days: 1)
      #expect(receiver.types == ["subscription.started", "subscription.started"])
      #expect(receiver.events.contains { $0.value("data.isResubscription") as? Bool == true })
    }
  }
}

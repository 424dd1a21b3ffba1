import Actions
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import Customers
@testable import Deliveries
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// What the webhooks of an app are told of an erased customer.
@Suite struct ErasureDeliveryTests {
  @Test func `an erasure that waits is told although the customer comes back, and the state follows`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(user.uuidString)
      receiver.answer(503)
      try await harness.service.deliveries.outbox.run()
      let back = try await harness.sync(
        [bought.signedTransaction], user: user, token: harness.token(for: user))
      #expect(back.bool("isPremium") == true)
      for _ in 0..<3 {
        harness.clock.advance(seconds: 600)
        try await harness.service.deliveries.outbox.run()
      }
      #expect(
        receiver.events.map(\.type) == [
          "customer.updated", "customer.erased", "customer.erased", "customer.updated",
        ])
      let bodies = Dictionary(grouping: receiver.events, by: \.id).mapValues { Set($0.map(\.body)) }
      #expect(bodies.values.allSatisfy { $0.count == 1 })
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `who was told of a customer hears of the erasure, or the erasure is refused`() async throws {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      let author = try #require(Harness.makeAuthor("ada", "asked by letter"))
      func erase(_ service: Service, isForced: Bool = false) async throws {
        _ = try await service.support.eraseCustomer(
          user.uuidString, bundleID: TestApps.climbing, by: author, isForced: isForced)
      }
      // Without the webhook, and without the app.
      for configuration in [TestApps.json, try ScreenTime.configuration()] {
        let other = try await harness.service(configuration: configuration)
        #expect(try await refusal { try await erase(other) } == .invalid)
        await other.close()
      }
      #expect(try await harness.count("subscriptions WHERE user_id = '\(user)'") == 1)
      try await erase(harness.service)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.last?.type == "customer.erased")
    }
  }

  @Test func `a refused erasure and a dry run name the running subscription and the missing destination`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      let author = try #require(Harness.makeAuthor("ada", "asked by letter"))
      let other = try await harness.service(configuration: TestApps.json)
      func erase(isDryRun: Bool, isForced: Bool = false) async throws -> ErasureReport {
        try await EraseCustomerRequest(
          customer: user.uuidString, bundleID: TestApps.climbing, force: isForced
        ).perform(at: other.support, by: author, isDryRun: isDryRun)
      }
      let destination = "\(TestApps.climbing) webhook \(receiver.url)"
      let refusal = await #expect(throws: SupportRefusal.self) { _ = try await erase(isDryRun: false) }
      #expect(
        refusal?.description.contains("\(bought.originalTransactionID) goes on at the App Store") == true)
      #expect(refusal?.description.contains("\(destination) was told of the customer") == true)
      for isDryRun in [true, false] {
        let report = try await erase(isDryRun: isDryRun, isForced: true)
        #expect(report.erased.first?.unreachableDestinations == [destination])
        #expect(report.description.contains("\(destination) is not told"))
      }
      await other.close()
      #expect(receiver.events.map(\.type) == ["customer.updated"])
    }
  }

  @Test func `a switch of free access that read a customer before the erasure does not make it return`()
    async throws
  {
    try await withWebhook { harness, receiver in
      let (user, _) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      // As the erasure leaves it, with a purchase that the switch has read before.
      _ = try await harness.pool.query(
        "UPDATE outbox SET payload = '{\"erased\": true}', done_at = NULL WHERE key = \(user.uuidString.lowercased())"
      )
      let app = try #require(harness.service.catalog[TestApps.climbing])
      try await CustomerChanges.enqueueEveryone(of: app, at: harness.clock.now, in: harness.pool)
      #expect(try await harness.count("outbox WHERE payload ? 'returned'") == 0)
      #expect(try await harness.count("outbox WHERE payload ? 'erased'") == 1)
    }
  }

  @Test func `a customer who comes back while the erasure is sent is told after it`() async throws {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(user.uuidString)
      receiver.meanwhile {
        _ = try await harness.sync([bought.signedTransaction], user: user, token: harness.token(for: user))
      }
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.map(\.type).first { $0 != "customer.updated" } == "customer.erased")
      #expect(receiver.events.last?.type == "customer.updated")
      #expect(receiver.events.last?.text("entitlements.status") == "active")
    }
  }

  @Test func `a customer who is erased again before the first erasure is told leaves no row`() async throws {
    try await withWebhook { harness, receiver in
      let (user, bought) = try await harness.customer()
      for _ in 0..<2 {
        _ = try await harness.sync([bought.signedTransaction], user: user, token: harness.token(for: user))
        try await harness.erase(user.uuidString)
      }
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.map(\.type) == ["customer.erased"])
      #expect(try await harness.count("outbox") == 0)
    }
  }

  @Test func `the record of a requeued erasure does not name the customer`() async throws {
    try await withWebhook { harness, receiver in
      let (user, _) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(user.uuidString)
      _ = try await harness.pool.query("UPDATE outbox SET dead_at = now()")
      let requeued = try await harness.service.requeueDead(
        of: TestApps.climbing, by: #require(Harness.ada))
      #expect(requeued.requeued == 1)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.last?.type == "customer.erased")
      #expect(try await harness.actions().map(\.action) == ["erase-customer", "requeue"])
      #expect(
        try await harness.tables(with: user.uuidString, except: ["profiles", "user_preferences"]) == [])
    }
  }

  @Test func `a webhook for lifecycle events alone is told of an erasure, and of no state`() async throws {
    try await withEvents(["subscription.started"]) { harness, receiver in
      let (user, _) = try await harness.customer()
      try await harness.service.deliveries.outbox.run()
      try await harness.erase(user.uuidString)
      try await harness.service.deliveries.outbox.run()
      #expect(receiver.events.map(\.type) == ["subscription.started", "customer.erased"])
      #expect(receiver.events.last?.text("customer.id") == user.uuidString.lowercased())
      #expect(try await harness.count("outbox") == 0)
    }
  }

  @Test func `a webhook that no longer receives states gets none that wait, and no state stays`() async throws
  {
    try await withWebhook { harness, receiver in
      _ = try await harness.customer()
      _ = try await harness.pool.query("UPDATE outbox SET done_at = now()")
      let (user, _) = try await harness.customer()
      #expect(try await harness.outboxStates().values.reduce(0, +) == 2)
      let webhook = WebhookReceiver.webhook(receiver.url, events: ["refunded"])
      let changed = try await harness.service(
        configuration: WebhookReceiver.configuration([webhook]),
        settings: ["TEST_WEBHOOK_SECRET": WebhookReceiver.secret])
      try await changed.deliveries.outbox.register()
      try await changed.deliveries.outbox.run()
      #expect(receiver.events.isEmpty)
      #expect(try await harness.count("outbox") == 0)
      _ = try await changed.support.eraseCustomer(
        user.uuidString, by: #require(Harness.ada), isForced: true)
      try await changed.deliveries.outbox.run()
      #expect(receiver.events.map(\.type) == ["customer.erased"])
      await changed.close()
    }
  }

  @Test func `no webhook gets the pseudonym of an erased customer`() async throws {
    try await withEvents(nil) { harness, receiver in
      _ = try await harness.startTrial("phone-1")
      _ = try await harness.desk.grant(
        to: "phone-1", bundleID: TestApps.family, tier: "family", days: 90, by: #require(Harness.ada))
      try await harness.service.deliveries.outbox.run()
      try await harness.erase("phone-1")
      try await harness.timePasses(days: 28)
      _ = try await harness.desk.setFreeAccess(
        true, bundleID: TestApps.family, by: #require(Harness.ada))
      try await harness.sweepAndDeliver()
      _ = try await harness.desk.setFreeAccess(
        false, bundleID: TestApps.family, by: #require(Harness.ada))
      try await harness.timePasses(days: 31)
      let told = receiver.events.map { String(decoding: $0.body, as: UTF8.self) }
      #expect(told.contains { $0.contains("phone-1") })
      #expect(told.filter { $0.contains("erased-") } == [])
    }
  }
}

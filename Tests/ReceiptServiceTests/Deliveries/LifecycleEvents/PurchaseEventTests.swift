import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Subscriptions
import Testing

@testable import Deliveries
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Each event with the story that causes it.
@Suite struct PurchaseEventTests {
  @Test func `a first purchase is subscription started, with the customer, the price and a valid signature`()
    async throws
  {
    try await withEvents { harness, receiver in
      let (user, bought) = try await harness.customer()
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["subscription.started"])
      let event = try receiver.first(.subscriptionStarted)
      let expected = try await receiver.signature(of: event, secret: WebhookReceiver.secret)
      #expect(event.signature == expected)
      #expect(event.value("id") as? String == event.id)
      #expect(event.value("timestamp") as? String == RFC3339.string(from: bought.transaction.purchaseDate))
      #expect(event.text("customer.id") == user.uuidString.lowercased())
      #expect(event.text("environment") == "Production")
      #expect(event.text("originalTransactionID") == bought.originalTransactionID)
      #expect(event.text("transaction.productID") == TestApps.monthly)
      #expect(
        event.value("data.transaction.priceMilliunits") as? Int == bought.transaction.price.map { Int($0) })
      #expect(event.value("data.isResubscription") as? Bool == false)
      #expect(event.text("subscription.status") == "active")
      #expect(try await harness.count("outbox") == 0)
      #expect(try await harness.count("lifecycle_events") == 1)
    }
  }

  @Test func `a renewal is renewed, once for each transaction`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      for _ in 0..<2 {
        harness.clock.advance(days: 29)
        try await harness.happens(.renew, to: bought.originalTransactionID)
      }
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["renewed", "renewed", "subscription.started"])
      #expect(Set(receiver.events.compactMap { $0.text("transactionID") }).count == 3)
    }
  }

  @Test func `each cancellation is an event with its reason, and the end is expired`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      for isOn in [false, true, false] {
        harness.clock.advance(days: 1)
        try await harness.happens(.setAutoRenew(isOn), to: bought.originalTransactionID)
      }
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["cancelled", "cancelled", "subscription.started"])
      #expect(try receiver.first(.cancelled).text("reason") == "customer")
      let end = try #require(bought.transaction.expiresDate)
      try await harness.becomes(end + 30)
      let expired = try receiver.first(.expired)
      #expect(expired.text("reason") == "customer")
      #expect(expired.value("timestamp") as? String == RFC3339.string(from: end))
      // The App Store's own word about the end tells nothing new.
      try await harness.happens(.expire(nil), to: bought.originalTransactionID)
      try await harness.timePasses(days: 3)
      #expect(receiver.types == ["cancelled", "cancelled", "expired", "subscription.started"])
    }
  }

  @Test func `a failed charge is a billing issue and a grace period, and its success is recovered`()
    async throws
  {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end - 60)
      try await harness.happens(.failToRenew(grace: true), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["billing_issue", "subscription.started"])
      try await harness.becomes(end + 30)
      #expect(receiver.types == ["billing_issue", "grace.started", "subscription.started"])
      #expect(try receiver.first(.graceStarted).text("grace.source") == "appStore")
      try await harness.becomes(end + 13.9 * 86_400)
      #expect(!receiver.types.contains("grace.ending"))
      try await harness.becomes(end + 14.1 * 86_400)
      try await harness.timePasses()
      #expect(receiver.types == ["billing_issue", "grace.ending", "grace.started", "subscription.started"])
      let ending = try receiver.first(.graceEnding)
      #expect(ending.text("grace.endsAt") == RFC3339.string(from: end + 16 * 86_400))
      try await harness.happens(.recover, to: bought.originalTransactionID)
      try await harness.timePasses(days: 3)
      #expect(
        receiver.types == [
          "billing_issue", "grace.ending", "grace.started", "recovered", "renewed", "subscription.started",
        ])
    }
  }

  @Test func `a failed charge without grace ends the access as expired with a billing error`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      var app = try #require(harness.store.app(TestApps.climbing))
      app.billingGrace = nil
      harness.store.put(app)
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end)
      try await harness.happens(.failToRenew(grace: false), to: bought.originalTransactionID)
      try await harness.becomes(end + 30)
      #expect(receiver.types == ["billing_issue", "expired", "subscription.started"])
      #expect(try receiver.first(.expired).text("reason") == "billing_error")
      try await harness.becomes(end + 86_400)
      try await harness.happens(.recover, to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["billing_issue", "expired", "recovered", "renewed", "subscription.started"])
    }
  }

  @Test func `a late renewal is not told as the end, but one that never comes is, a day later`() async throws
  {
    try await withEvents { harness, receiver in
      let (_, late) = try await harness.customer()
      let (_, lost) = try await harness.customer()
      let end = try #require(late.transaction.expiresDate)
      try await harness.becomes(end + 600)
      #expect(receiver.types == ["subscription.started", "subscription.started"])
      try await harness.happens(.renew, to: late.originalTransactionID)
      try await harness.becomes(end + 86_300)
      #expect(!receiver.types.contains("expired"))
      try await harness.becomes(end + 86_500)
      try await harness.timePasses(days: 1)
      #expect(receiver.types == ["expired", "renewed", "subscription.started", "subscription.started"])
      #expect(try receiver.first(.expired).text("originalTransactionID") == lost.originalTransactionID)
    }
  }

  @Test func `a purchase that cannot be read stops no other purchase's events`() async throws {
    try await withEvents { harness, receiver in
      let (_, broken) = try await harness.customer()
      let (_, lost) = try await harness.customer()
      func set(_ environment: String) async throws {
        _ = try await harness.pool.query(
          """
          UPDATE subscriptions SET environment = \(environment)
          WHERE original_transaction_id = \(broken.originalTransactionID)
          """)
      }
      let end = try #require(lost.transaction.expiresDate)
      try await harness.becomes(end + 600)
      // The word of a later build.
      try await set("Beta")
      harness.clock.set(end + 86_500)
      let sweep = harness.service.deliveries.eventSweep
      #expect(try await sweep.run() == 2)
      let told: Postgres.Query =
        "SELECT original_transaction_id AS id FROM lifecycle_events WHERE type = 'expired' ORDER BY 1"
      let others = try await harness.pool.query(told).map { try $0.decode("id", as: String.self) }
      #expect(others == [lost.originalTransactionID])
      // With nothing else to do, its failure is that of the job.
      await #expect(throws: (any Error).self) { try await sweep.run() }
      try await set("Production")
      _ = try await sweep.run()
      let all = try await harness.pool.query(told).map { try $0.decode("id", as: String.self) }
      #expect(all == [broken.originalTransactionID, lost.originalTransactionID].sorted())
    }
  }

  @Test func `a refund and its reversal are one event each`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 2)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      // The App Store turns the renewal off with a refund of the current period.
      #expect(receiver.types == ["cancelled", "refunded", "subscription.started"])
      #expect(try receiver.first(.cancelled).text("reason") == "refund")
      let refunded = try receiver.first(.refunded)
      #expect(refunded.text("reason") == "other")
      #expect(refunded.text("refund.refundedAt") == RFC3339.string(from: harness.clock.now))
      #expect(refunded.text("subscription.status") == "cancelled")
      harness.clock.advance(days: 1)
      try await harness.happens(.reverseRefund(transactionID: nil), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["cancelled", "refund_reversed", "refunded", "subscription.started"])
    }
  }

  @Test func `an upgrade changes the product at once, a downgrade with the renewal`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try await harness.deviceBuys("phone")
      harness.clock.advance(days: 5)
      try await harness.happens(.changeProduct(TestApps.familyPlan), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["product_changed", "subscription.started"])
      let up = try receiver.first(.productChanged)
      #expect(up.text("formerProductID") == TestApps.individual)
      #expect(up.text("transaction.productID") == TestApps.familyPlan)
      harness.clock.advance(days: 5)
      try await harness.happens(.changeProduct(TestApps.individual), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["product_changed", "subscription.started"])
      harness.clock.advance(days: 24.8)
      try await harness.happens(.renew, to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["product_changed", "product_changed", "renewed", "subscription.started"])
    }
  }

  @Test func `a price increase is an event when it is announced and when it is accepted`() async throws {
    try await withEvents { harness, receiver in
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 1)
      try await harness.happens(.announcePrice(5_990), to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      let announced = try receiver.first(.priceIncrease)
      #expect(announced.value("data.price.isAccepted") as? Bool == false)
      #expect(announced.value("data.price.priceMilliunits") as? Int == 5_990)
      harness.clock.advance(days: 1)
      try await harness.happens(.acceptPrice, to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["price_increase", "price_increase", "subscription.started"])
      #expect(receiver.events.contains { $0.value("data.price.isAccepted") as? Bool == true })
    }
  }

  @Test func `a family member's purchase starts with sharing and expires when sharing ends`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      try await harness.arrives(bought)
      let shared = try await harness.happens(.share(accountID: nil), to: bought.originalTransactionID)
      harness.clock.advance(days: 1)
      try await harness.happens(.revoke, to: shared.originalTransactionID)
      try await harness.timePasses(days: 0.1)
      #expect(receiver.types == ["expired", "subscription.started", "subscription.started"])
      let expired = try receiver.first(.expired)
      #expect(expired.text("reason") == "family_sharing_ended")
      #expect(expired.text("transaction.priceMilliunits") == nil)
    }
  }

  @Test func `a transfer by support names both customers`() async throws {
    try await withEvents { harness, receiver in
      let (user, bought) = try await harness.customer()
      let other = UUID()
      let author = try #require(Harness.makeAuthor("ada", "a new account"))
      _ = try await harness.service.support.transfer(
        bought.originalTransactionID, to: other.uuidString.lowercased(), by: author, isForced: true)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["subscription.started", "transferred"])
      let event = try receiver.first(.transferred)
      #expect(event.text("customer.id") == other.uuidString.lowercased())
      #expect(event.text("formerCustomer.id") == user.uuidString.lowercased())
    }
  }

  @Test func `a transfer to the present owner confirms the owner and is not told as a move`() async throws {
    try await withEvents { harness, receiver in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let author = try #require(Harness.makeAuthor("ada", "the order's e-mail"))
      let result = try await harness.service.support.transfer(id, to: user.uuidString, by: author)
      #expect(
        result.description.hasPrefix(
          "\(id): stays with \(user.uuidString.lowercased()), now"))
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["subscription.started"])
      let row = try await harness.pool.query(
        "SELECT owned_because, taken_from FROM subscriptions WHERE original_transaction_id = \(id)")[0]
      #expect(try row.decode("owned_because", as: String.self) == "support")
      #expect(try row.decode("taken_from", as: String?.self) == nil)
    }
  }

  @Test func `a purchase that a device claims after the notification is told with its owner`() async throws {
    try await withEvents { harness, receiver in
      try harness.sellFamilySubscriptions()
      let claimed = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let unclaimed = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      try await harness.arrives(claimed)
      try await harness.arrives(unclaimed)
      try await harness.sweepAndDeliver()
      #expect(receiver.events.isEmpty)
      _ = try await harness.device("phone", shows: claimed)
      harness.clock.advance(seconds: 31)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["subscription.started", "subscription.started"])
      let owners = Dictionary(
        uniqueKeysWithValues: receiver.events.map {
          ($0.text("originalTransactionID"), $0.text("customer.id"))
        })
      #expect(owners[claimed.originalTransactionID] == "phone")
      #expect(owners[unclaimed.originalTransactionID] == .some(nil))
    }
  }

  @Test func `an event of the sandbox is marked, and an app without webhooks writes none`() async throws {
    try await withEvents { harness, receiver in
      let bought = try harness.buy(token: UUID(), in: .sandbox)
      try await harness.arrives(bought)
      try await harness.sweepAndDeliver()
      #expect(try receiver.first(.subscriptionStarted).text("environment") == "Sandbox")
    }
    try await withWebhook { harness, _ in
      _ = try await harness.customer()
      #expect(try await harness.count("lifecycle_events") == 0)
      #expect(try await harness.count("outbox") == 1)
    }
  }

  @Test func `a webhook receives only the types of its list`() async throws {
    try await withEvents(["renewed"]) { harness, receiver in
      let (_, bought) = try await harness.customer()
      harness.clock.advance(days: 29)
      try await harness.happens(.renew, to: bought.originalTransactionID)
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["renewed"])
    }
    try await withEvents(nil) { harness, receiver in
      _ = try await harness.customer()
      try await harness.sweepAndDeliver()
      #expect(receiver.types == ["customer.updated", "subscription.started"])
    }
  }
}

import AppStore
import Foundation
import Synchronization
import Testing

@testable import AppStoreSimulator

/// Receives notifications instead of a network and responds as configured.
final class RecordingSender: NotificationSender {
  private let sent = Mutex<[(payload: String, url: String)]>([])
  let outcome: SendOutcome

  init(outcome: SendOutcome = .answered(200)) { self.outcome = outcome }

  var payloads: [String] { sent.withLock { $0.map(\.payload) } }
  var urls: [String] { sent.withLock { $0.map(\.url) } }

  func send(_ signedPayload: String, to url: String) async -> SendOutcome {
    sent.withLock { $0.append((signedPayload, url)) }
    return outcome
  }
}

struct DeliveryTests {
  @Test func `a notification can be sent again, unchanged`() async throws {
    let sender = RecordingSender()
    let store = try SimulatedAppStore(
      apps: [Climb.app], webhook: "http://127.0.0.1/webhook", clock: VirtualClock { Climb.start },
      sender: sender)
    let bought = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly))
    let uuid = bought.notification.uuid
    #expect(sender.payloads.isEmpty)
    #expect(await store.deliver(uuid)?.outcome == SendOutcome(result: .success, status: 200))
    await store.deliver(uuid)
    #expect(sender.payloads == [bought.notification.signedPayload, bought.notification.signedPayload])
    #expect(sender.urls.first == "http://127.0.0.1/webhook")
    #expect(store.notification(uuid)?.attempts.map(\.attemptDate) == [Climb.start, Climb.start])
  }

  @Test func `without a webhook notifications are recorded and not sent`() async throws {
    let sender = RecordingSender()
    let store = try SimulatedAppStore(apps: [Climb.app], sender: sender)
    let bought = try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.lifetime))
    #expect(await store.deliver(bought.notification.uuid) == nil)
    #expect(await store.deliver("unknown") == nil)
    #expect(sender.payloads.isEmpty)
    #expect(store.notifications.map(\.uuid) == [bought.notification.uuid])
    store.setWebhook("http://127.0.0.1/webhook")
    #expect(await store.deliver(bought.notification.uuid)?.outcome.isSuccess == true)
  }

  @Test(arguments: [(200, true), (206, true), (207, false), (302, false), (400, false), (503, false)])
  func `200 to 206 mean delivered`(status: Int, isDelivered: Bool) {
    #expect(SendOutcome.answered(status).isSuccess == isDelivered)
    #expect(SendOutcome.answered(status).status == status)
  }

  @Test func `a purchase is found in either environment`() throws {
    let store = try SimulatedAppStore(apps: [Climb.app], clock: VirtualClock { Climb.start })
    let test = try store.buy(
      PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly), in: .sandbox)
    let renewed = try store.perform(.renew, on: test.originalTransactionID)
    #expect(renewed.transaction.environment == .sandbox)
    #expect(store.truth(of: test.originalTransactionID)?.environment == .sandbox)
    #expect(throws: StoreRefusal.unknownTransaction("1")) { try store.perform(.renew, on: "1") }
    #expect(throws: StoreRefusal.unknownEnvironment("LocalTesting")) {
      try store.buy(PurchaseRequest(bundleID: Climb.bundleID, productID: Climb.monthly), in: .localTesting)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

/// What webhooks and CloudKit are told of the children of a household.
@Suite struct HouseholdDeliveryTests {
  private static let children = "/api/v1/devices/phone/children"
  private static let query = "?bundleID=\(TestApps.family)"

  /// The parent's device `phone` buys the family's plan, and pairs these children, a second apart.
  private func household(
    of children: [String] = [], _ harness: Harness
  ) async throws -> SignedOutcome {
    try harness.sellFamilySubscriptions()
    let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
    _ = try await harness.device("phone", shows: bought)
    for child in children { try await pair(child, harness) }
    return bought
  }

  private func pair(_ child: String, _ harness: Harness) async throws {
    let answer = try await harness.send(
      .post, Self.children + Self.query, json: #"{"childDeviceID": "\#(child)"}"#)
    #expect(answer.status == 201)
    harness.clock.advance(seconds: 1)
  }

  /// The parent's plan opens one place from now on.
  private func downgrade(_ bought: SignedOutcome, _ harness: Harness) async throws {
    try await harness.happens(.changeProduct(TestApps.individual), to: bought.originalTransactionID)
    harness.clock.set(try #require(bought.transaction.expiresDate))
    try await harness.happens(.renew, to: bought.originalTransactionID)
    try await harness.sweepAndDeliver()
  }

  /// The access of a customer as it was told last; `nil` if it was not.
  private func access(of customer: String, _ receiver: WebhookReceiver) -> Bool? {
    receiver.events.last { $0.text("customer.id") == customer }?.value("data.entitlements.isAccessGranted")
      as? Bool
  }

  /// The customers whose state waits for its delivery.
  private func waiting(_ harness: Harness) async throws -> [String] {
    try await harness.pool.query(
      "SELECT key FROM outbox WHERE destination = 'webhook' AND done_at IS NULL ORDER BY key"
    ).map { try $0.decode("key") }
  }

  // MARK: Siblings

  @Test func `webhooks learn that a sibling became active when another child was unpaired`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      let bought = try await household(of: ["ann", "ben", "cai"], harness)
      try await downgrade(bought, harness)
      #expect(access(of: "ben", receiver) == false)
      harness.clock.advance(seconds: 60)
      #expect(try await harness.send(.delete, Self.children + "/ann" + Self.query).status == 200)
      #expect(try await waiting(harness) == ["ann", "ben"])
      try await harness.service.deliveries.outbox.run()
      #expect(access(of: "ben", receiver) == true)
    }
  }

  @Test func `webhooks learn that a sibling became active when another child was erased`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      let bought = try await household(of: ["ann", "ben", "cai"], harness)
      try await downgrade(bought, harness)
      #expect(access(of: "ben", receiver) == false)
      harness.clock.advance(seconds: 60)
      try await harness.erase("ann", of: TestApps.family)
      // Cai stays paused.
      #expect(try await waiting(harness) == ["ann", "ben"])
      try await harness.service.deliveries.outbox.run()
      #expect(access(of: "ben", receiver) == true)
      #expect(receiver.events.last { $0.text("customer.id") == "ann" }?.type == "customer.erased")
    }
  }

  @Test func `webhooks learn which children a device pauses that joins a trial with children of its own`()
    async throws
  {
    try await withEvents(["customer.updated"]) { harness, receiver in
      func launch(_ device: String) async throws -> Int {
        try await harness.launch(
          device, account: "mother", bundleID: TestApps.family, of: TestApps.family
        ).status
      }
      // The tablet had a plan of its own, with three children.
      for child in ["one", "two", "three"] {
        _ = try await harness.pool.query(
          """
          INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at)
          VALUES (\(TestApps.family), 'tablet', \(child), \(harness.clock.now))
          """)
        harness.clock.advance(seconds: 1)
      }
      #expect(try await launch("phone") == 201)
      for child in ["ann", "ben", "cai"] { try await pair(child, harness) }
      try await harness.service.deliveries.outbox.run()
      #expect(access(of: "cai", receiver) == true)
      harness.clock.advance(seconds: 60)
      // The trial has five places.
      #expect(try await launch("tablet") == 200)
      #expect(try await waiting(harness) == ["cai", "one", "tablet", "three", "two"])
      try await harness.service.deliveries.outbox.run()
      #expect(access(of: "cai", receiver) == false)
      for child in ["ann", "ben", "one", "two", "three"] {
        #expect(access(of: child, receiver) == true, "\(child)")
      }
    }
  }

  @Test func `of two siblings erased at once each leaves its place to one that waits`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      // The plan has five places.
      let children = (1...7).map { "kid-\($0)" }
      _ = try await household(of: Array(children.prefix(5)), harness)
      for child in children.suffix(2) {
        _ = try await harness.pool.query(
          """
          INSERT INTO devices (bundle_id, device_id, child_device_id, paired_at)
          VALUES (\(TestApps.family), 'phone', \(child), \(harness.clock.now))
          """)
        harness.clock.advance(seconds: 1)
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for child in children.prefix(2) {
          group.addTask { try await harness.erase(child, of: TestApps.family) }
        }
        try await group.waitForAll()
      }
      try await harness.service.deliveries.outbox.run()
      for child in children.suffix(2) { #expect(access(of: child, receiver) == true, "\(child)") }
    }
  }

  // MARK: Erased parents

  @Test func `erasing a parent does not tell that its children were erased`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      _ = try await household(of: ["ann"], harness)
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(seconds: 60)
      try await harness.erase("phone", of: TestApps.family)
      try await harness.service.deliveries.outbox.run()
      let erased = receiver.events.filter { $0.type == "customer.erased" }
      #expect(erased.map { $0.text("customer.id") } == ["phone"])
      let last = receiver.events.last { $0.text("customer.id") == "ann" }
      #expect(last?.value("data.entitlements.isAccessGranted") as? Bool == false)
      // Nothing of the child is left.
      #expect(try await harness.count("outbox WHERE key = 'ann'") == 0)
    }
  }

  // MARK: Access and pairings

  @Test func `a child's webhook has its parent's access, and its end`() async throws {
    try await withEvents(["customer.updated"]) { harness, receiver in
      let bought = try await household(of: ["ann"], harness)
      func told() async throws -> [String] {
        try await harness.service.deliveries.outbox.run()
        return receiver.events.filter { $0.text("customer.id") == "ann" }.map {
          "\($0.text("entitlements.tier") ?? "none") \($0.value("data.entitlements.isAccessGranted") as? Bool ?? false)"
        }
      }
      #expect(try await told() == ["family true"])
      harness.clock.advance(seconds: 60)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await told() == ["family true", "none false"])
    }
  }

  @Test func `a child's CloudKit record has its parent's access, and its end`() async throws {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("phone", TestApps.familyPlan)
      _ = try await harness.send(
        .post, "/api/v1/devices/phone/children?bundleID=\(TestApps.family)",
        json: #"{"childDeviceID": "ann"}"#)
      try await harness.service.deliveries.outbox.run()
      func records() -> [Bool] {
        cloud.writes.filter { $0.name == FakeCloudKit.recordName("ann") }.map(\.isAccessGranted)
      }
      #expect(records() == [true])
      harness.clock.advance(seconds: 60)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      #expect(records() == [true, false])
    }
  }

  @Test func `webhooks learn of each pairing and of its end once`() async throws {
    try await withEvents(["child.paired", "child.unpaired"]) { harness, receiver in
      _ = try await household(harness)
      for name in ["Ann's", "Ann's iPad"] {
        _ = try await harness.send(
          .post, Self.children + Self.query, json: #"{"childDeviceID": "ann", "name": "\#(name)"}"#)
      }
      let code = try await harness.send(.post, "/api/v1/devices/phone/pairing-codes" + Self.query, json: "{}")
      let joined = try await harness.enter(
        code.string("code") ?? "", on: "ben", app: TestApps.family)
      #expect(joined.status == 201)
      #expect(try await harness.send(.delete, Self.children + "/ann" + Self.query).status == 200)
      #expect(try await harness.send(.delete, Self.children + "/ann" + Self.query).status == 404)
      for _ in 0..<2 { try await harness.service.deliveries.outbox.run() }
      #expect(receiver.types.sorted() == ["child.paired", "child.paired", "child.unpaired"])
      #expect(receiver.events.allSatisfy { $0.text("customer.id") == "phone" })
      let ended = try receiver.first(.childUnpaired)
      #expect(ended.text("childDeviceID") == "ann")
      #expect(ended.text("environment") == "Production")
      #expect(ended.value("data.pausedDevices") == nil)
    }
  }
}

import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Subscriptions
import Testing

@testable import Actions
@testable import Deliveries
@testable import ReceiptService

@Suite struct CloudKitTests {
  @Test func `a purchase is written as a record by a request that is signed for CloudKit`() async throws {
    try await withCloudKit { harness, cloud in
      _ = try await harness.deviceBuys("parent-1", TestApps.familyPlan)
      try await harness.service.deliveries.outbox.run()
      let write = try #require(cloud.writes.first)
      #expect(cloud.writes.count == 1)
      #expect(write.name == FakeCloudKit.recordName("parent-1"))
      #expect(write.type == "Status")
      #expect(write.tier == "family")
      #expect(write.status == "active")
      #expect(write.isAccessGranted)
      #expect(write.features == #"{"childDevices":5}"#)
      #expect(write.validUntil ?? 0 > write.updatedAt)
      let asked = try #require(cloud.asked.first)
      #expect(asked.path == "/database/1/iCloud.com.example.family/development/public/records/modify")
      #expect(asked.keyID == "0123abcd")
      #expect(asked.date == RFC3339.string(from: harness.clock.now))
      #expect(try await cloud.isSigned(asked))
      var other = asked
      other.body.append(0x20)
      #expect(try await !cloud.isSigned(other))
    }
  }

  @Test func `an unchanged state is not written to CloudKit again`() async throws {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      try await harness.service.deliveries.outbox.run()
      for _ in 0..<3 {
        harness.clock.advance(seconds: 60)
        _ = try await harness.device("parent-1", shows: bought)
        try await harness.service.deliveries.outbox.run()
      }
      #expect(cloud.writes.count == 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "cancelled"])
      #expect(cloud.writes.last?.tier == nil)
      #expect(cloud.writes.last?.isAccessGranted == false)
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `a state that changes with time is written to CloudKit when it changes`() async throws {
    try await withCloudKit { harness, cloud in
      let start = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), 'parent-1', \(start), \(start + 30 * 86_400))
        """)
      try await harness.note(devices: ["parent-1"])
      for _ in 0..<40 {
        try await harness.service.deliveries.outbox.run()
        harness.clock.advance(days: 1.01)
      }
      #expect(cloud.writes.map(\.status) == ["trial", "grace", "expired"])
      let began = Int(start.timeIntervalSince1970 * 1000)
      #expect(cloud.writes.map(\.validUntil) == [began + 30 * 86_400_000, began + 37 * 86_400_000, nil])
      // The change at the grant's end has an age of its own, so an outage at that moment does not give it up.
      cloud.change { $0.fault = { _ in .cloudKit(503, "TRY_AGAIN_LATER") } }
      let end = harness.clock.now + 3_600
      _ = try await harness.pool.query(
        """
        INSERT INTO grants (bundle_id, device_id, tier, starts_at, ends_at, reason, granted_by)
        VALUES (\(TestApps.family), 'parent-1', 'family', \(end), \(end + 86_400), 'sorry', 'ada')
        """)
      try await harness.note(devices: ["parent-1"])
      try await harness.service.deliveries.outbox.run()
      cloud.change { $0.fault = nil }
      for _ in 0..<30 {
        harness.clock.advance(seconds: 3_700)
        try await harness.service.deliveries.outbox.run()
      }
      #expect(cloud.writes.suffix(2).map(\.tier) == ["family", nil])
      #expect(cloud.writes.count == 5)
    }
  }

  @Test func `a delivery with a lost response is repeated, even if the state is as before`()
    async throws
  {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      try await harness.service.deliveries.outbox.run()
      // CloudKit has the refund, but the response is lost.
      cloud.change { $0.fault = { _ in .cloudKit(500, "INTERNAL_ERROR") } }
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await harness.service.deliveries.outbox.run()
      cloud.change { $0.fault = nil }
      try await harness.happens(
        .reverseRefund(transactionID: nil), to: bought.originalTransactionID)
      harness.clock.advance(seconds: 600)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "active"])
    }
  }

  @Test func `a CloudKit request has at most 200 records, and each customer is written once`() async throws {
    try await withCloudKit { harness, cloud in
      let names = (0..<450).map { "device-\($0)" }
      try await harness.note(devices: names)
      try await harness.note(devices: names)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.asked.count == 3)
      #expect(cloud.writes.count == 450)
      #expect(Set(cloud.writes.map(\.name)) == Set(names.map(FakeCloudKit.recordName)))
    }
  }

  @Test(arguments: [false, true])
  func `only a permanently refused record is given up, and support can requeue it`(
    wholeRequest: Bool
  ) async throws {
    try await withCloudKit { harness, cloud in
      let bad = FakeCloudKit.recordName("device-7")
      cloud.change { state in
        if wholeRequest {
          state.fault = { $0.contains(bad) ? .cloudKit(400, "BAD_REQUEST") : nil }
        } else {
          state.recordFault = { $0 == bad ? ("BAD_REQUEST", nil) : nil }
        }
      }
      try await harness.note(devices: (0..<20).map { "device-\($0)" })
      try await harness.service.deliveries.outbox.run()
      #expect(try await harness.outboxStates() == ["delivered": 19, "dead": 1])
      harness.clock.advance(days: 2)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.count == 19)

      cloud.change { $0 = FakeCloudKit.State(writes: $0.writes) }
      let entry = try #require(try await harness.service.deliveries.outbox.list().first)
      #expect(entry.customer == "device-7")
      #expect(entry.state == "dead")
      #expect(entry.error == "BAD_REQUEST: no")
      let requeued = try await harness.service.deliveries.outbox.requeue(
        id: entry.id, by: #require(Harness.ada))
      #expect(requeued.requeued == 1)
      let unknown = try await refusal {
        _ = try await harness.service.deliveries.outbox.requeue(id: 1_000_000, by: #require(Harness.ada))
      }
      #expect(unknown == .notFound)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.count == 20)
      #expect(try await harness.service.deliveries.outbox.list().isEmpty)
      #expect(
        try await harness.service.deliveries.outbox.list(customer: "device-7").map(\.state) == ["delivered"])
      let action = try await harness.pool.query("SELECT action, to_customer, by, reason FROM support_actions")
      #expect(try action[0].decode("action", as: String.self) == "requeue")
      #expect(try action[0].decode("to_customer", as: String.self) == "device-7")
    }
  }

  @Test
  func `a delivery that was given up returns with the next change, and support requeues all of an app`()
    async throws
  {
    try await withCloudKit { harness, cloud in
      cloud.change { $0.recordFault = { _ in ("BAD_REQUEST", nil) } }
      try await harness.note(devices: ["device-1", "device-2", "device-3"])
      try await harness.service.deliveries.outbox.run()
      #expect(try await harness.outboxStates() == ["dead": 3])
      cloud.change { $0.recordFault = nil }
      try await harness.note(devices: ["device-1"])
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.map(\.name) == [FakeCloudKit.recordName("device-1")])
      let count = try await harness.service.deliveries.outbox.requeueDead(
        bundleID: TestApps.family, by: #require(Harness.ada))
      #expect(count == 2)
      try await harness.service.deliveries.outbox.run()
      #expect(try await harness.outboxStates() == ["delivered": 3])
    }
  }

  @Test(arguments: [
    (401, "AUTHENTICATION_FAILED"), (413, "QUOTA_EXCEEDED"), (429, "THROTTLED"), (503, "TRY_AGAIN_LATER"),
  ])
  func `a refused CloudKit request pauses the destination and gives up no row`(
    status: Int, code: String
  ) async throws {
    try await withCloudKit { harness, cloud in
      try await harness.note(devices: (0..<300).map { "device-\($0)" })
      cloud.change { $0.fault = { _ in .cloudKit(status, code, retryAfter: 120) } }
      try await harness.service.deliveries.outbox.run()
      harness.clock.advance(seconds: 119)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.asked.count == 1)
      let destination = try await harness.pool.query("SELECT failures, last_error FROM outbox_destinations")[
        0]
      #expect(try destination.decode("failures", as: Int.self) == 1)
      #expect(try destination.decode("last_error", as: String.self) == "HTTP \(status): \(code): no")
      // One record is sent as a probe, then the rest.
      cloud.change { $0.fault = nil }
      harness.clock.advance(seconds: 2)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.count == 300)
      #expect(cloud.asked.count == 4)
    }
  }

  @Test func `a new CloudKit container gets every customer, and all rows wait until a key is configured`()
    async throws
  {
    let waiting = TestApps.json.replacing(
      #""customer": "device","#, with: #""customer": "device", "writeTo": ["cloudkit"],"#)
    try await withHarness { harness in
      try harness.sellFamilySubscriptions()
      _ = try await harness.deviceBuys("parent-1")
      let keyless = try await harness.service(configuration: waiting)
      try await keyless.deliveries.outbox.register()
      try await keyless.deliveries.outbox.register()
      #expect(try await keyless.deliveries.outbox.run() == 0)
      #expect(try await keyless.deliveries.outbox.list().map(\.customer) == ["parent-1"])
      await keyless.close()
      let cloud = try await FakeCloudKit()
      let ready = try await harness.service(
        configuration: TestApps.json.replacing(
          #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration))
      try await ready.deliveries.outbox.register()
      try await ready.deliveries.outbox.run()
      #expect(cloud.writes.map(\.name) == [FakeCloudKit.recordName("parent-1")])
      await ready.close()
      await cloud.stop()
    }
  }
}

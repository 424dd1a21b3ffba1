import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing
import Work

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

/// Races of the outbox: several servers, changes during a request, and servers that crash.
@Suite struct OutboxRaceTests {
  @Test func `a change during a delivery does not wait for it and is written afterwards`() async throws {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      cloud.change { state in
        // The commit succeeds during the request, because no lock is held.
        state.meanwhile = {
          try await harness.happens(.refundLatest, to: bought.originalTransactionID)
          _ = try await harness.service.deliveries.outbox.run()
        }
      }
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "cancelled"])
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `two concurrent servers write each CloudKit record once`() async throws {
    try await withCloudKit { harness, cloud in
      let configuration = TestApps.json.replacing(
        #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration)
      let second = try await harness.service(configuration: configuration)
      let names = (0..<1_000).map { "device-\($0)" }
      try await harness.note(devices: names)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for outbox in [harness.service.deliveries.outbox, second.deliveries.outbox] {
          group.addTask { while try await outbox.run() > 0 {} }
        }
        try await group.waitForAll()
      }
      await second.close()
      #expect(cloud.writes.count == 1_000)
      #expect(Set(cloud.writes.map(\.name)).count == 1_000)
      #expect(try await harness.outboxStates() == ["delivered": 1_000])
    }
  }

  @Test func `customers that change while two servers deliver all get their last state`() async throws {
    try await withCloudKit { harness, cloud in
      let configuration = TestApps.json.replacing(
        #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration)
      let second = try await harness.service(configuration: configuration)
      var ids: [String] = []
      for number in 0..<8 {
        ids.append(try await harness.deviceBuys("device-\(number)").originalTransactionID)
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        let isOver = Flag()
        for outbox in [harness.service.deliveries.outbox, second.deliveries.outbox] {
          group.addTask { repeat { try await outbox.run() } while !isOver.isRaised }
        }
        for round in 0..<10 {
          for id in ids {
            try await harness.happens(
              round.isMultiple(of: 2) ? .refundLatest : .reverseRefund(transactionID: nil), to: id)
          }
        }
        for id in ids.prefix(4) { try await harness.happens(.refundLatest, to: id) }
        isOver.raise()
        try await group.waitForAll()
      }
      try await second.deliveries.outbox.run()
      await second.close()
      for number in 0..<8 {
        let last = cloud.writes(of: FakeCloudKit.recordName("device-\(number)")).last
        #expect(last?.status == (number < 4 ? "cancelled" : "active"))
      }
      #expect(try await harness.outboxStates() == ["delivered": 8])
    }
  }

  @Test func `the claim of a crashed server expires, and its late outcome is ignored`()
    async throws
  {
    try await withCloudKit { harness, cloud in
      try await harness.note(devices: ["device-1", "device-2"])
      let destination = OutboxDestination(kind: .cloudkit, bundleID: TestApps.family)
      let (dead, instant) = (UUID(), harness.clock.now)
      let claimed = try await harness.pool.query(
        DeliveryRows.claim(
          destination, erasuresOnly: false, WorkLease(by: dead, at: instant, for: 90), limit: 200))
      #expect(claimed.count == 2)
      try await harness.note(devices: ["device-1"])
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.isEmpty)
      harness.clock.advance(seconds: 91)
      cloud.change { $0.recordFault = { _ in ("TRY_AGAIN_LATER", 30) } }
      try await harness.service.deliveries.outbox.run()
      // The server was only slow. Its late outcome is ignored.
      let late = try claimed.map { row in
        DeliveryRows.RowUpdate(
          id: try row.decode("id"), change: try row.decode("change"), isDone: true, nextAttemptAt: instant)
      }
      _ = try await harness.pool.transaction(
        pipeline: DeliveryRows.release(late, by: dead, at: harness.clock.now))
      #expect(try await harness.undelivered() == 2)
      cloud.change { $0.recordFault = nil }
      harness.clock.advance(seconds: 120)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.count == 2)
      #expect(try await harness.undelivered() == 0)
    }
  }

  @Test func `content that a server sent before it crashed does not count as delivered`() async throws {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      try await harness.service.deliveries.outbox.run()
      // The server crashes between the response and the commit: CloudKit has 'cancelled', but the outbox row does not
      // say so.
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let destination = OutboxDestination(kind: .cloudkit, bundleID: TestApps.family)
      let instant = harness.clock.now
      let claimed = try await harness.pool.query(
        DeliveryRows.claim(
          destination, erasuresOnly: false, WorkLease(at: instant, for: 90), limit: 200))
      #expect(claimed.count == 1)
      try await harness.happens(.reverseRefund(transactionID: nil), to: bought.originalTransactionID)
      harness.clock.advance(seconds: 91)
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "active"])
    }
  }
}

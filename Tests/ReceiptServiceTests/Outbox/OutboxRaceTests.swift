import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// Several servers, changes while a request is on its way, and servers that die.
@Suite struct OutboxRaceTests {
  @Test func `a change while an attempt is under way waits for nothing and is written after it`() async throws
  {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      cloud.change { state in
        // It is committed while the request is on its way: no lock is held for it.
        state.meanwhile = {
          try await harness.happens(.refundLatest, to: bought.originalTransactionID)
          _ = try await harness.service.outbox.run()
        }
      }
      try await harness.service.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "cancelled"])
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `two servers that drain at once write each record once`() async throws {
    try await withCloudKit { harness, cloud in
      let configuration = TestApps.json.replacing(
        #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration)
      let second = try await harness.service(configuration: configuration)
      let names = (0..<1_000).map { "device-\($0)" }
      try await harness.note(devices: names)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for outbox in [harness.service.outbox, second.outbox] {
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

  @Test func `customers that change while two servers drain all end with their last state`() async throws {
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
        for outbox in [harness.service.outbox, second.outbox] {
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
      try await second.outbox.run()
      await second.close()
      for number in 0..<8 {
        let last = cloud.writes(of: CloudKitStandIn.recordName("device-\(number)")).last
        #expect(last?.status == (number < 4 ? "cancelled" : "active"))
      }
      #expect(try await harness.outboxStates() == ["delivered": 8])
    }
  }

  @Test func `a server that dies after its claim holds up nobody for long, and does not come back`()
    async throws
  {
    try await withCloudKit { harness, cloud in
      try await harness.note(devices: ["device-1", "device-2"])
      let lane = OutboxLane(destination: .cloudkit, bundleID: TestApps.family)
      let (dead, instant) = (UUID(), harness.clock.now)
      let claimed = try await harness.pool.query(
        DeliveryRows.claim(lane, by: dead, limit: 200, at: instant, until: instant + 90))
      #expect(claimed.count == 2)
      try await harness.note(devices: ["device-1"])
      try await harness.service.outbox.run()
      #expect(cloud.writes.isEmpty)
      harness.clock.advance(seconds: 91)
      cloud.change { $0.recordFault = { _ in ("TRY_AGAIN_LATER", 30) } }
      try await harness.service.outbox.run()
      // It was only slow: what it says now counts no more.
      let late = try claimed.map { row in
        DeliveryRows.Settlement(
          id: try row.decode(0), change: try row.decode(2), isDone: true, nextAttemptAt: instant)
      }
      _ = try await harness.pool.transaction(
        pipeline: DeliveryRows.settle(late, by: dead, at: harness.clock.now))
      #expect(try await harness.undelivered() == 2)
      cloud.change { $0.recordFault = nil }
      harness.clock.advance(seconds: 120)
      try await harness.service.outbox.run()
      #expect(cloud.writes.count == 2)
      #expect(try await harness.undelivered() == 0)
    }
  }

  @Test func `what a server wrote before it died is not taken for what stood there before`() async throws {
    try await withCloudKit { harness, cloud in
      let bought = try await harness.deviceBuys("parent-1")
      try await harness.service.outbox.run()
      // It dies between the answer and the commit: 'cancelled' stands there, and nobody knows.
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let lane = OutboxLane(destination: .cloudkit, bundleID: TestApps.family)
      let instant = harness.clock.now
      let claimed = try await harness.pool.query(
        DeliveryRows.claim(lane, by: UUID(), limit: 200, at: instant, until: instant + 90))
      #expect(claimed.count == 1)
      try await harness.happens(.reverseRefund(transactionID: nil), to: bought.originalTransactionID)
      harness.clock.advance(seconds: 91)
      try await harness.service.outbox.run()
      #expect(cloud.writes.map(\.status) == ["active", "active"])
    }
  }
}

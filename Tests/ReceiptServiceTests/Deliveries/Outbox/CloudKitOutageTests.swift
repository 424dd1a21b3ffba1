import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import Postgres
import Subscriptions
import Testing

@testable import Deliveries
@testable import ReceiptService

/// CloudKit is unreachable for an hour of the test clock, then throttles, while customers change.
@Suite struct CloudKitOutageTests {
  @Test(arguments: [1, 2] as [UInt64])
  func `after an outage and throttling every customer's last state is written to CloudKit once, in order`(
    seed: UInt64
  ) async throws {
    try await withCloudKit { harness, cloud in
      var chance = SeededGenerator(seed: seed)
      let second = try await harness.service(
        configuration: TestApps.json.replacing(
          #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration))
      var purchases: [(device: String, id: String, isRefunded: Bool, changes: Int)] = []
      for number in 0..<12 {
        let device = "device-\(number)"
        let bought = try await harness.deviceBuys(device)
        purchases.append((device, bought.originalTransactionID, false, 0))
      }
      try await harness.service.deliveries.outbox.run()
      #expect(cloud.writes.count == 12)

      for minute in 0..<90 {
        switch minute {
        case 0: cloud.change { $0.fault = { _ in .cloudKit(503, "TRY_AGAIN_LATER") } }
        case 60: cloud.change { $0.fault = { _ in .cloudKit(429, "THROTTLED", retryAfter: 90) } }
        case 66:
          cloud.change { state in
            state.fault = nil
            state.recordFault = { $0.hasSuffix("a") || $0.hasSuffix("3") ? ("THROTTLED", 45) : nil }
          }
        case 70: cloud.change { $0.recordFault = nil }
        default: break
        }
        if minute < 75 {
          let index = Int.random(in: 0..<purchases.count, using: &chance)
          let purchase = purchases[index]
          try await harness.happens(
            purchase.isRefunded ? .reverseRefund(transactionID: nil) : .refundLatest, to: purchase.id)
          purchases[index].isRefunded.toggle()
          purchases[index].changes += 1
        }
        harness.clock.advance(seconds: 60)
        async let one = harness.service.deliveries.outbox.run()
        async let other = second.deliveries.outbox.run()
        _ = try await (one, other)
      }
      await second.close()

      #expect(try await harness.outboxStates() == ["delivered": 12])
      for purchase in purchases {
        let app = try #require(harness.service.deliveries.outbox.catalog[TestApps.family])
        let writes = cloud.writes(of: CloudKitRecord.name(of: .device(purchase.device), in: app))
        #expect(writes.last?.status == (purchase.isRefunded ? "cancelled" : "active"))
        #expect(zip(writes, writes.dropFirst()).allSatisfy { $0.updatedAt <= $1.updatedAt })
        #expect(writes.count <= purchase.changes + 1)
      }
      // The outage cost one attempt every few minutes, not one for each customer.
      #expect(cloud.asked.count < 200)
      for asked in cloud.asked.suffix(5) { #expect(try await cloud.isSigned(asked)) }
    }
  }
}

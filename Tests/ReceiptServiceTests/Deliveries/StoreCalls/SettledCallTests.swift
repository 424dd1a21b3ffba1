import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing
import Work

@testable import Deliveries
@testable import Ledger
@testable import ReceiptService

/// Questions about refunds that end while a server answers them.
@Suite struct SettledCallTests {
  private static let facts = Harness.apps(#""refundAnswers": "facts""#)

  @Test func `an answer beside an erasure leaves no record`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      harness.store.add(.slow(1).at(.consumption).next(1))
      async let calls = harness.service.deliveries.storeCalls.run()
      try await Task.sleep(for: .milliseconds(400))
      try await harness.erase(user.uuidString)
      #expect(try await calls == 1)
      #expect(harness.store.consumptionReports.count == 1)
      #expect(try await harness.refundRecords() == [])
    }
  }

  @Test func `a call that another server settled is neither sent nor recorded`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      let queue = harness.service.deliveries.storeCalls
      let now = harness.clock.now
      let lease = WorkLease(at: now, for: 300)
      let row = try #require(
        try await harness.pool.query(StoreCallRows.claimDue(lease, limit: 1)).first)
      let call = try #require(try StoreCall(row))
      _ = try await harness.pool.query(
        "UPDATE store_calls SET settled_at = \(now), outcome = 'sent' WHERE id = \(call.id)")
      let app = try #require(queue.catalog[TestApps.climbing])
      try await queue.queue.settle(call, queue.answer(call, lease, of: app))
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await harness.refundRecords() == [])
    }
  }
}

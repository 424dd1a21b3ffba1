import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService

/// A server that stops while it works on queued rows: another one takes them over without waiting for the lease.
@Suite struct StoppedServerTests {
  /// Runs `work` while `table` is locked, and cancels it once `isClaimed` finds a row.
  private static func stop(
    _ harness: Harness, whileReading table: StaticString, claimed isClaimed: Query,
    _ work: @escaping @Sendable () async throws -> Void
  ) async throws {
    try await harness.pool.withTransaction { connection in
      _ = try await connection.query("LOCK TABLE \(unescaped: table) IN ACCESS EXCLUSIVE MODE")
      let running = Task { try await work() }
      while try await harness.pool.query(isClaimed).isEmpty { await Task.yield() }
      running.cancel()
      await #expect(throws: CancellationError.self) { try await running.value }
    }
  }

  @Test func `another server delivers at once what a stopped server has claimed and not sent`() async throws {
    try await withCloudKit { harness, cloud in
      _ = try await harness.deviceBuys("parent-1")
      let outbox = harness.service.deliveries.outbox
      try await Self.stop(
        harness, whileReading: "subscriptions", claimed: "SELECT FROM outbox WHERE claimed_by IS NOT NULL"
      ) { _ = try await outbox.run() }
      #expect(cloud.writes.isEmpty)
      try await outbox.run()
      #expect(cloud.writes.map(\.status) == ["active"])
      #expect(try await harness.outboxStates() == ["delivered": 1])
    }
  }

  @Test func `a call to the App Store that was not made is made at once by another server`() async throws {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      let (calls, now) = (harness.service.deliveries.storeCalls, harness.clock.now)
      try await Self.stop(
        harness, whileReading: "consents", claimed: "SELECT FROM store_calls WHERE next_attempt_at > \(now)"
      ) { _ = try await calls.run() }
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await calls.run() == 1)
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "consumption", outcome: "sent", attempts: 0)])
    }
  }

  @Test func `a call that a stopped server was making is no failed attempt, and is repeated with its body`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""refundAnswers": "facts""#)) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      let calls = harness.service.deliveries.storeCalls
      harness.store.add(.slow(2).at(.consumption).next(1))
      let running = Task { try await calls.run() }
      // The body is stored before it is sent.
      while try await harness.count("store_calls WHERE body IS NOT NULL") == 0 { await Task.yield() }
      running.cancel()
      await #expect(throws: CancellationError.self) { try await running.value }
      let body: Query = "SELECT body::text AS body FROM store_calls"
      let sent = try await harness.pool.query(body)[0].decode("body", as: String.self)
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "consumption", outcome: nil, attempts: 0)])
      #expect(try await calls.run() == 1)
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "consumption", outcome: "sent", attempts: 0)])
      let last = try await harness.pool.query(body)[0].decode("body", as: String.self)
      #expect(last == sent)
    }
  }
}

import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// Refund requests whose answer cannot be read, decided or sent at once.
@Suite struct RefundAnswerFailureTests {
  private static let facts = Harness.apps(#""refundAnswers": "facts""#)
  private static let grant = Harness.apps(#""refundAnswers": "prefer-grant""#)

  @Test func `an erased preference does not count, and stops no later answer`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.preferRefund(.decline, for: bought.transactionID, by: ada)
      try await harness.erase(user.uuidString)
      let returned = UUID()
      let token = try await harness.token(for: returned)
      #expect(
        try await harness.sync([bought.signedTransaction], user: returned, token: token).status == 200)
      _ = try await harness.consent(true, of: returned)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent"])
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [nil])
    }
  }

  @Test func `a call that fails does not stop the others, and ends at its deadline`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      for _ in 1...2 {
        let (user, bought) = try await harness.customer()
        _ = try await harness.consent(true, of: user)
        try await harness.requestsRefund(of: bought)
      }
      _ = try await harness.pool.query(
        "UPDATE store_calls SET body = '{}' WHERE id = (SELECT min(id) FROM store_calls)")
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == [nil, "sent"])
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["unknown", "sent"])
    }
  }

  @Test func `a refund request about which nothing can be read ends at its deadline`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (_, bought) = try await harness.customer()
      try await harness.requestsRefund(of: bought)
      _ = try await harness.pool.query("ALTER TABLE consents RENAME TO away")
      _ = try await harness.pool.query(
        "CREATE VIEW consents AS SELECT bundle_id, customer, 1 / 0 = 1 AS is_given FROM away")
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == [nil])
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["late"])
      #expect(try await harness.refundRecords().count == 1)
    }
  }

  @Test func `after a rejected attempt the answer is decided again, and the record tells what was sent`()
    async throws
  {
    try await withHarness(configuration: Self.grant) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      harness.store.add(.unauthorized.at(.consumption).next(1))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.attempts) == [1])
      let told = try await harness.desk.preferRefund(
        .decline, for: bought.transactionID, by: #require(Harness.ada))
      #expect(told.description.contains("the next answer will prefer no refund"), "\(told)")
      #expect(!told.description.contains("the end is not known"), "\(told)")
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [.decline])
      #expect(try await harness.refundRecords().first?.contains("prefers no refund; delivered") == true)
      #expect(try await harness.preferrers() == ["ada"])
    }
  }

  @Test func `an answer without a known end is repeated unchanged, and support and the record tell it`()
    async throws
  {
    try await withHarness(configuration: Self.grant) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      harness.store.add(.close.at(.consumption))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      harness.store.clearServerFaults()
      let told = try await harness.desk.preferRefund(
        .decline, for: bought.transactionID, by: #require(Harness.ada))
      #expect(told.description.contains("the end is not known"), "\(told)")
      harness.clock.advance(seconds: 60)
      // A rejection of the repeated attempt tells nothing of the first one.
      harness.store.add(.unauthorized.at(.consumption).next(1))
      try await harness.service.deliveries.storeCalls.run()
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [.grantFull])
      #expect(try await harness.refundRecords().first?.contains("prefers the refund; delivered") == true)
      #expect(try await harness.preferrers() == [nil])
    }
  }

  @Test func `a repeated answer is recorded with the person whose preference it follows`() async throws {
    try await withHarness(configuration: Self.grant) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      let desk = harness.desk
      _ = try await desk.preferRefund(.decline, for: bought.transactionID, by: #require(Harness.ada))
      harness.store.add(.close.at(.consumption))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      harness.store.clearServerFaults()
      let ben = try #require(Harness.makeAuthor("ben", "ticket 900"))
      _ = try await desk.preferRefund(.grant, for: bought.transactionID, by: ben)
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [.decline])
      #expect(try await harness.preferrers() == ["ada"])
    }
  }

  @Test func `an outcome that is not known ends as unknown, whatever follows`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      for _ in 1...2 {
        let (user, bought) = try await harness.customer()
        _ = try await harness.consent(true, of: user)
        try await harness.requestsRefund(of: bought)
      }
      harness.store.add(.close.at(.consumption))
      try await harness.service.deliveries.storeCalls.run()
      harness.store.clearServerFaults()
      harness.clock.advance(seconds: 60)
      harness.store.add(.error(.transactionIdNotFound).at(.consumption).next(1))
      harness.store.add(.unauthorized.at(.consumption))
      try await harness.service.deliveries.storeCalls.run()
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["unknown", "unknown"])
    }
  }
}

extension Harness {
  /// The people whose preferences the recorded answers follow.
  fileprivate func preferrers() async throws -> [String?] {
    try await pool.query(
      "SELECT details ->> 'preferredBy' AS by FROM support_actions WHERE action = 'refund-answer' ORDER BY id"
    ).map { try $0.decode("by") }
  }
}

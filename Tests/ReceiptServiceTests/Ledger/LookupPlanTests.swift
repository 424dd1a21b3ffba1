import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// Statements of the ledger are prepared while the tables may be empty, and run when they are not.
@Suite struct LookupPlanTests {
  private static let scanned: Query = """
    SELECT relname::text FROM pg_stat_xact_user_tables
    WHERE seq_scan > 0 AND relname IN ('transactions', 'renewals', 'subscriptions', 'purchase_devices',
      'grants', 'trials', 'profiles')
    ORDER BY 1
    """

  @Test(arguments: [1, 16])
  func `purchases are taken in by index even while the tables are so small that nothing is gained by it`(
    count: Int
  ) async throws {
    try await withHarness { harness in
      let validation = harness.service.validation
      let entries = try (0..<count).map { _ in
        let user = UUID()
        let bought = try harness.buy(token: user)
        let purchase = try validation.proofs.purchase(
          signedTransaction: bought.signedTransaction, signedRenewalInfo: bought.signedRenewalInfo,
          bundleID: nil)
        return LedgerEntry(purchase, claimant: .user(user), instant: harness.clock.now)
      }
      let batch = LedgerBatch(
        entries: entries, headerIDs: JWSHeaderIDs(), catalog: validation.catalog,
        logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: validation.metrics)
      let (receipts, scanned) = try await harness.pool.withTransaction { connection in
        let receipts = try await batch.run(on: connection)
        let scanned = try await connection.query(Self.scanned)
        return (receipts, try scanned.map { try $0.decode(0, as: String.self) })
      }
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      #expect(try await harness.count("profiles") == count)
      #expect(scanned == [])
    }
  }

  @Test(
    arguments: [([UUID()], []), ([], ["phone"]), ([UUID()], ["phone", "tablet"])] as [([UUID], [String])])
  func `what customers have is read by index, whoever is asked about`(users: [UUID], devices: [String])
    async throws
  {
    try await withHarness { harness in
      let scanned = try await harness.pool.withTransaction { connection in
        let answers = try await connection.pipeline(HoldingsRows.select(users: users, devices: devices))
        _ = try HoldingsRows.decode(answers)
        return try await connection.query(Self.scanned).map { try $0.decode(0, as: String.self) }
      }
      #expect(scanned == [])
    }
  }
}

import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// Statements of the ledger are prepared while the tables may be empty, and run when they are not.
@Suite struct LookupPlanTests {
  @Test
  func `purchases are taken in by index even while the tables are so small that nothing is gained by it`()
    async throws
  {
    try await withHarness { harness in
      let validation = harness.service.validation
      let entries = try (0..<16).map { _ in
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
        let scanned = try await connection.query(
          """
          SELECT relname::text FROM pg_stat_xact_user_tables
          WHERE seq_scan > 0 AND relname IN ('transactions', 'renewals', 'subscriptions', 'purchase_devices',
            'grants', 'trials', 'profiles')
          ORDER BY 1
          """)
        return (receipts, try scanned.map { try $0.decode(0, as: String.self) })
      }
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      #expect(try await harness.count("profiles") == 16)
      #expect(scanned == [])
    }
  }
}

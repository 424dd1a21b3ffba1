import AppStore
import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService

/// The query plans of the ledger's statements, which are prepared while the tables may still be empty.
@Suite struct LookupPlanTests {
  /// The number of sequential scans of each table by the connection. It may include earlier transactions of the
  /// connection, so a test compares it with the number before.
  fileprivate static func scans(by connection: PostgresConnection) async throws -> [String: Int] {
    let rows = try await connection.query(
      """
      SELECT relname::text, seq_scan FROM pg_stat_xact_user_tables
      WHERE relname IN ('transactions', 'renewals', 'subscriptions', 'purchase_devices', 'grants', 'trials',
        'profiles')
      """)
    return try Dictionary(uniqueKeysWithValues: rows.map { (try $0.decode(0), try $0.decode(1)) })
  }

  /// The number of rows of `profiles` that the transaction has read.
  private static let profilesRead: Query = """
    SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables
    WHERE relname = 'profiles'
    """

  @Test(arguments: [1, 16])
  func `storing purchases uses index scans only, even while the tables are tiny`(
    count: Int
  ) async throws {
    try await withHarness { harness in
      let entries = try (0..<count).map { _ in
        let user = UUID()
        return try harness.entry(of: harness.buy(token: user), by: user)
      }
      let (receipts, scans, _) = try await harness.commit(entries) { _ in }
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      #expect(try await harness.count("profiles") == count)
      #expect(scans.after == scans.before)
    }
  }

  @Test(arguments: [1, 16])
  func `a batch reads no more than ten rows of a large profiles table per customer`(count: Int) async throws {
    try await withHarness { harness in
      let users = (0..<count).map { _ in UUID() }
      let first = try users.map { user in try harness.entry(of: harness.buy(token: user), by: user) }
      _ = try await harness.commit(first) { _ in }
      _ = try await harness.pool.query(
        "INSERT INTO profiles (id) SELECT gen_random_uuid() FROM generate_series(1, 3000)")
      // The same users buy once more, so their existing rows change.
      harness.clock.advance(days: 1)
      let second = try users.map { user in
        try harness.entry(of: harness.buy(TestApps.annual, token: user), by: user)
      }
      let (receipts, _, read) = try await harness.commit(second) { connection in
        try await connection.query(Self.profilesRead)[0].decode(0, as: Int.self)
      }
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      let changed: Query = "SELECT count(*) FROM profiles WHERE premium_product_id = \(TestApps.annual)"
      #expect(try await harness.pool.query(changed)[0].decode(0, as: Int.self) == count)
      #expect(read > 0)
      #expect(read <= 10 * count)
    }
  }

  @Test(
    arguments: [([UUID()], []), ([], ["phone"]), ([UUID()], ["phone", "tablet"])] as [([UUID], [String])])
  func `the records of users and devices are read by index scans only`(users: [UUID], devices: [String])
    async throws
  {
    try await withHarness { harness in
      let scans = try await harness.pool.withTransaction { connection in
        let before = try await Self.scans(by: connection)
        let answers = try await connection.pipeline(CustomerRecordRows.select(users: users, devices: devices))
        _ = try CustomerRecordRows.decode(answers)
        return (before: before, after: try await Self.scans(by: connection))
      }
      #expect(scans.after == scans.before)
    }
  }
}

extension Harness {
  fileprivate func entry(of bought: SignedOutcome, by user: UUID) throws -> LedgerEntry {
    let purchase = try service.validation.proofs.purchase(
      signedTransaction: bought.signedTransaction, signedRenewalInfo: bought.signedRenewalInfo, bundleID: nil)
    return LedgerEntry(purchase, claimant: .user(user), instant: clock.now)
  }

  /// Records entries in one transaction, and returns its sequential scans and the result of `looking`.
  fileprivate func commit<Sight>(
    _ entries: [LedgerEntry], looking: (PostgresConnection) async throws -> Sight
  ) async throws -> (
    receipts: [LedgerReceipt], scans: (before: [String: Int], after: [String: Int]), sight: Sight
  ) {
    let batch = LedgerTransaction(
      entries: entries, headerIDs: JWSHeaderIDs(), catalog: service.notifications.catalog,
      clock: clock.service,
      logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: service.validation.metrics)
    return try await pool.withTransaction { connection in
      let before = try await LookupPlanTests.scans(by: connection)
      let receipts = try await batch.run(on: connection)
      let after = try await LookupPlanTests.scans(by: connection)
      return (receipts, (before, after), try await looking(connection))
    }
  }
}

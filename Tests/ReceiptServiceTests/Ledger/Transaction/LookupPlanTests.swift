import AppStore
import AppStoreSimulator
import Foundation
import Logging
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Ledger
@testable import Proofs
@testable import ReceiptService

/// The query plans of the ledger's statements, which are prepared while the tables may still be empty.
@Suite struct LookupPlanTests {
  /// What the connection has done with the tables so far. PostgreSQL moves the counters of a committed transaction from
  /// the first view to the second at a time of its choice, so only the sum is exact.
  private static let counters: Query = """
    SELECT relname::text, pending.seq_scan + flushed.seq_scan AS scans,
      (pending.seq_tup_read + flushed.seq_tup_read
        + coalesce(pending.idx_tup_fetch, 0) + coalesce(flushed.idx_tup_fetch, 0))::bigint AS rows_read
    FROM pg_stat_xact_user_tables AS pending JOIN pg_stat_user_tables AS flushed USING (relid, relname)
    WHERE relname IN ('transactions', 'renewals', 'subscriptions', 'purchase_devices', 'grants', 'trials', 'profiles')
    """

  fileprivate struct Work {
    /// The number of sequential scans of each table.
    var scans: [String: Int] = [:]
    /// The number of rows read of each table.
    var rows: [String: Int] = [:]
  }

  fileprivate static func work(of connection: PostgresConnection) async throws -> Work {
    var work = Work()
    for row in try await connection.query(counters) {
      let table = try row.decode("relname", as: String.self)
      work.scans[table] = try row.decode("scans")
      work.rows[table] = try row.decode("rows_read")
    }
    return work
  }

  @Test(arguments: [1, 16])
  func `storing purchases uses index scans only, even while the tables are tiny`(
    count: Int
  ) async throws {
    try await withHarness { harness in
      let entries = try (0..<count).map { _ in
        let user = UUID()
        return try harness.entry(of: harness.buy(token: user), by: user)
      }
      let (receipts, before, after) = try await harness.commit(entries)
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      #expect(try await harness.count("profiles") == count)
      #expect(after.scans == before.scans)
    }
  }

  @Test(arguments: [1, 16])
  func `a batch reads no more than ten rows of a large profiles table per customer`(count: Int) async throws {
    try await withHarness { harness in
      let users = (0..<count).map { _ in UUID() }
      let first = try users.map { user in try harness.entry(of: harness.buy(token: user), by: user) }
      _ = try await harness.commit(first)
      _ = try await harness.pool.query(
        "INSERT INTO profiles (id) SELECT gen_random_uuid() FROM generate_series(1, 3000)")
      // The same users buy once more, so their existing rows change.
      harness.clock.advance(days: 1)
      let second = try users.map { user in
        try harness.entry(of: harness.buy(TestApps.annual, token: user), by: user)
      }
      let (receipts, before, after) = try await harness.commit(second)
      let isAllNews = receipts.allSatisfy(\.isNews)
      #expect(isAllNews)
      let changed: Query = "SELECT count(*) FROM profiles WHERE premium_product_id = \(TestApps.annual)"
      #expect(try await harness.pool.query(changed)[0].decode(0, as: Int.self) == count)
      let read = try #require(after.rows["profiles"]) - (before.rows["profiles"] ?? 0)
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
      let (before, after) = try await harness.pool.withTransaction { connection in
        let before = try await Self.work(of: connection)
        _ = try await connection.customerRecords(users: users, devices: devices)
        return (before, try await Self.work(of: connection))
      }
      #expect(after.scans == before.scans)
    }
  }

  @Test func `the parents of children are found by an index in a large table of pairings`() async throws {
    try await withHarness { harness in
      let statements: [Query] = [
        """
        INSERT INTO devices (bundle_id, device_id, child_device_id, name, paired_at)
        SELECT \(TestApps.climbing)::text, 'parent-' || n, 'child-' || n, 'a phone', now()
        FROM generate_series(1, 5000) AS n
        """,
        "ANALYZE devices",
      ]
      for statement in statements { _ = try await harness.pool.query(statement) }
      let lookup = HouseholdRows.appsOfParents(
        of: ["child-7", "child-9", "phone"], among: [TestApps.climbing, "com.example.other"])
      let found = try await harness.pool.query(lookup)
        .map { try $0.decode("child_device_id", as: String.self) }
      #expect(found.sorted() == ["child-7", "child-9"])
      let plan = try await harness.pool.query("EXPLAIN (ANALYZE, TIMING off) \(lookup)").map {
        try $0.decode("QUERY PLAN", as: String.self)
      }
      let rows = plan.compactMap { $0.firstMatch(of: /actual rows=(\d+)/)?.1 }.compactMap { Int($0) }
      #expect(!rows.isEmpty && rows.allSatisfy { $0 < 10 }, "\(plan)")
    }
  }
}

extension Harness {
  fileprivate func entry(of bought: SignedOutcome, by user: UUID) throws -> LedgerEntry {
    let purchase = try service.proofs.verifier.purchase(
      signedTransaction: bought.signedTransaction, signedRenewalInfo: bought.signedRenewalInfo, bundleID: nil)
    return LedgerEntry(purchase, because: .proof(Claim(by: .user(user))), instant: clock.now)
  }

  /// Records entries in one transaction, which may be committed at the end.
  fileprivate func commit(
    _ entries: [LedgerEntry]
  ) async throws -> (receipts: [LedgerReceipt], before: LookupPlanTests.Work, after: LookupPlanTests.Work) {
    let batch = LedgerTransaction(
      entries: entries, headerIDs: JWSHeaderIDs(), catalog: service.notifications.catalog,
      effects: service.notifications.ledger.effects,
      clock: clock.service,
      logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: service.notifications.metrics
    )
    return try await pool.withTransaction { connection in
      let before = try await LookupPlanTests.work(of: connection)
      let receipts = try await batch.run(on: connection)
      return (receipts, before, try await LookupPlanTests.work(of: connection))
    }
  }
}

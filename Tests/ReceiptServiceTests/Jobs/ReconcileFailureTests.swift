import Configuration
import Curl
import Foundation
import HTTPTypes
import Logging
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import AppStore
@testable import AppStoreSimulator
@testable import Deliveries
@testable import Ledger
@testable import ReceiptService

/// Failures during a reconciliation.
@Suite struct ReconcileFailureTests {
  @Test func `the next reconciliation requests the statuses that a failing store did not return`()
    async throws
  {
    try await withHarness { harness in
      let ids = try await harness.renewsSilently(customers: 3)
      harness.store.add(ServerFault.unauthorized.at(.statuses))
      let failed = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(failed.failure != nil)
      #expect(failed.statusesAsked == 1)
      harness.store.clearServerFaults()
      harness.clock.advance(seconds: 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.failure == nil)
      #expect(next.statusesAsked == 3)
      #expect(next.repairCount == 3)
      for id in ids { #expect(try await harness.row(of: id).status == "active") }
    }
  }

  @Test(arguments: [
    AppStoreErrorCode.accountNotFound, .originalTransactionIdNotFound, .transactionIdNotFound,
    .invalidTransactionId,
  ])
  func `a purchase without a status in the store does not stop the reconciliation of the others`(
    code: AppStoreErrorCode
  ) async throws {
    try await withHarness { harness in
      _ = try await harness.renewsSilently(customers: 3)
      harness.store.add(ServerFault.error(code).at(.statuses).next(1))
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.failure == nil)
      #expect(report.statusesAsked == 3)
      #expect(report.repairCount == 2)
      harness.clock.advance(seconds: 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.statusesAsked == 0)
    }
  }

  @Test func `only a store error that concerns every purchase stops the status requests`() {
    func rejected(_ status: Int, _ code: Int64?) -> AppStoreServerError {
      .rejected(
        .init(status: status, code: code.map(AppStoreErrorCode.init), message: nil, retryAfter: nil))
    }
    for (status, code) in [
      (429, 4_290_000), (500, 5_000_000), (500, 5_000_001), (404, 4_040_003), (502, nil), (404, nil),
    ] as [(Int, Int64?)] {
      #expect(rejected(status, code).retryDecision == .stop)
    }
    for error in [
      .unauthorizedWithoutJSON, .transport(CancellationError()), .circuitOpen(retryAfter: .zero),
      .overloaded(retryAfter: .zero), .undecodableAnswer(status: 503, detail: ""),
    ] as [AppStoreServerError] {
      #expect(error.retryDecision == .stop)
    }
    for code in [4_040_001, 4_040_005, 4_040_010, 4_000_006] as [Int64] {
      #expect(rejected(Int(code / 10_000), code).retryDecision == .skip)
    }
    for code in [4_040_002, 4_040_006] as [Int64] {
      #expect(rejected(404, code).retryDecision == .retryLater)
    }
  }

  @Test func `a purchase that cannot be written does not stop the reconciliation of the others`() async throws
  {
    try await withHarness { harness in
      let ids = try await harness.renewsSilently(customers: 3)
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no'; END $$
        """)
      _ = try await harness.pool.query(
        Query(
          unescaped: "CREATE TRIGGER refuse BEFORE INSERT ON transactions FOR EACH ROW "
            + "WHEN (NEW.original_transaction_id = '\(ids[0])') EXECUTE FUNCTION refuse()"))
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.statusesFailed == 1)
      #expect(report.failure != nil)
      #expect(report.repairCount == 2)
      _ = try await harness.pool.query("DROP TRIGGER refuse ON transactions")
      harness.clock.advance(seconds: 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.statusesAsked == 1)
      #expect(next.repairs.map(\.originalTransactionID) == [ids[0]])
    }
  }

  @Test func `a reconciliation repairs nothing while it cannot write the record`()
    async throws
  {
    try await withHarness { harness in
      let id = try await harness.renewsSilently(customers: 1)[0]
      let before = try await harness.row(of: id)
      try await harness.refuseInserts(into: "support_actions")
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.statusesFailed == 1)
      #expect(report.repairCount == 0)
      #expect(try await harness.row(of: id) == before)
      #expect(try await harness.count("transactions") == 1)

      try await harness.stopRefusing(inserts: "support_actions")
      harness.clock.advance(seconds: 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.repairs.map(\.originalTransactionID) == [id])
      let written = try await harness.pool.query(
        "SELECT original_transaction_id FROM support_actions WHERE action = 'reconcile'")
      #expect(try written.map { try $0.decode("original_transaction_id", as: String.self) } == [id])
    }
  }

  @Test func `a failed repair of a reconciliation is not recorded`() async throws {
    try await withHarness { harness in
      let id = try await harness.renewsSilently(customers: 1)[0]
      let before = try await harness.row(of: id)
      try await harness.refuseInserts(into: "subscriptions")
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.statusesFailed == 1)
      #expect(try await harness.row(of: id) == before)
      #expect(try await harness.count("support_actions") == 0)
    }
  }

  @Test func `two concurrent reconciliations request each status once`() async throws {
    try await withHarness { harness in
      _ = try await harness.renewsSilently(customers: 6)
      let other = try await harness.service(configuration: TestApps.json)
      async let one = harness.service.reconcile(bundleID: TestApps.climbing)[0]
      async let two = other.reconcile(bundleID: TestApps.climbing)[0]
      let reports = await [one, two]
      #expect(reports.map(\.statusesAsked).reduce(0, +) == 6)
      #expect(reports.map(\.repairCount).reduce(0, +) == 6)
      await other.close()
    }
  }

  @Test func `reconciliation times from a clock that was ahead do not block a run after its correction`()
    async throws
  {
    try await withHarness { harness in
      let right = harness.clock.now
      harness.clock.advance(days: 10)
      #expect(try await harness.service.reconcileJob.runIfDue().count == 4)
      harness.clock.set(right.addingTimeInterval(120))
      _ = try harness.buy(token: UUID())
      harness.clock.advance(seconds: 60)
      let reports = try await harness.service.reconcileJob.runIfDue()
      #expect(reports.count == 4)
      #expect(reports.map(\.notificationsMissed).reduce(0, +) == 1)
      #expect(try await harness.position() == harness.clock.now)
      #expect(try await harness.service.reconcileJob.runIfDue().isEmpty)
    }
  }

  @Test func `a subscription with a status request time in the future is still reconciled`() async throws {
    try await withHarness { harness in
      _ = try await harness.renewsSilently(customers: 1)
      let future = harness.clock.now.addingTimeInterval(400 * 86_400)
      _ = try await harness.pool.query("UPDATE subscriptions SET store_asked_at = \(future)")
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.repairCount == 1)
    }
  }

  @Test func `a reconciliation that is cancelled because the process stops logs no error`() async throws {
    try await withHarness { harness in
      let lines = LogLines()
      let own = harness.service.reconciliation
      let app = try #require(own.catalog[TestApps.climbing])
      let reconciliation = Reconciliation(
        apis: own.apis, catalog: own.catalog, pool: own.pool, missed: own.missed, overdue: own.overdue,
        clock: own.clock, logger: Logger(label: "tests") { _ in lines })
      let task = Task {
        while !Task.isCancelled { await Task.yield() }
        return await reconciliation.run(app, .production)
      }
      task.cancel()
      let report = await task.value
      #expect(report.failure != nil)
      #expect(!lines.all.isEmpty)
      #expect(lines.all.allSatisfy { $0.contains("cancelled") })
    }
  }

  @Test func `a reconciliation from a start in the future fails with that reason`() async throws {
    try await withHarness { harness in
      let reports = await harness.service.reconcile(since: harness.clock.now.addingTimeInterval(86_400))
      #expect(reports.allSatisfy { $0.failure == "\(ReconcileFailure.beginsInTheFuture)" })
      #expect(reports.count == 4)
    }
  }
}

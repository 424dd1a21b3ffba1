import Curl
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import AppStore
@testable import AppStoreSimulator
@testable import ReceiptService

/// What goes wrong while what went wrong is made good.
@Suite struct ReconcileTroubleTests {
  @Test func `overdue ones that a failing store did not answer for are asked about at the next run`()
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
  func `one purchase that the store does not tell of costs the others nothing`(
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

  @Test func `only what would befall every purchase ends the asking`() {
    func rejected(_ status: Int, _ code: Int64?) -> AppStoreServerError {
      .rejected(
        .init(status: status, code: code.map(AppStoreErrorCode.init), message: nil, retryAfter: nil))
    }
    for (status, code) in [
      (429, 4_290_000), (500, 5_000_000), (500, 5_000_001), (404, 4_040_003), (502, nil), (404, nil),
    ] as [(Int, Int64?)] {
      #expect(rejected(status, code).consequence == .stop)
    }
    for error in [
      .unauthorizedWithoutJSON, .transport(CancellationError()), .circuitOpen(retryAfter: .zero),
      .overloaded(retryAfter: .zero), .undecodableAnswer(status: 503, detail: ""),
    ] as [AppStoreServerError] {
      #expect(error.consequence == .stop)
    }
    for code in [4_040_001, 4_040_005, 4_040_010, 4_000_006] as [Int64] {
      #expect(rejected(Int(code / 10_000), code).consequence == .nothingToLearn)
    }
    for code in [4_040_002, 4_040_006] as [Int64] {
      #expect(rejected(404, code).consequence == .askAgain)
    }
  }

  @Test func `one purchase that always fails does not keep the others waiting`() async throws {
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

  @Test func `a repair that cannot be written down is not made until it can be`()
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
      #expect(try written.map { try $0.decode(0, as: String.self) } == [id])
    }
  }

  @Test func `a repair that fails is not written down`() async throws {
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

  @Test func `two servers at once ask about each once`() async throws {
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

  @Test func `the periods between are not lost when the history cannot be had once`() async throws {
    try await withHarness { harness in
      let id = try await harness.renewsSilently(customers: 1, times: 2)[0]
      harness.store.add(ServerFault.unauthorized.at(.history))
      let failed = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(failed.failure != nil)
      harness.store.clearServerFaults()
      harness.clock.advance(seconds: 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.failure == nil)
      #expect(try await harness.count("transactions") == 3)
      #expect(try await harness.row(of: id).status == "active")
    }
  }

  @Test func `a piece with a notification that does not verify is read again, the rest is read`() async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let other = try SigningAuthority()
      var payload = NotificationPayload(
        notificationType: .test, notificationUUID: UUID().uuidString.lowercased(),
        signedDate: harness.clock.now)
      payload.data = NotificationData(environment: .production, bundleId: TestApps.climbing)
      let foreign = try other.signer.sign(payload)
      let good = bought.notification.signedPayload
      let both =
        #"{"hasMore":false,"notificationHistory":[{"signedPayload":"\#(foreign)"},{"signedPayload":"\#(good)"}]}"#
      let (reconciliation, app) = try harness.reconciliation { _ in .body(both) }
      let report = await reconciliation.run(app, .production)
      #expect(report.notificationsRefused > 1)
      #expect(report.notificationsMissed == 1)
      #expect(report.failure != nil)
      #expect(report.readUntil == harness.clock.now)
      #expect(try await harness.position() == nil)
    }
  }

  @Test func `a notification with a part that fails is kept, and the history is read past it`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let good = bought.notification.signedPayload
      let bad = try harness.notification(UUID(), of: bought, .signature)
      let both =
        #"{"hasMore":false,"notificationHistory":[{"signedPayload":"\#(bad)"},{"signedPayload":"\#(good)"}]}"#
      let (reconciliation, app) = try harness.reconciliation { number in
        .body(number == 1 ? both : #"{"hasMore":false,"notificationHistory":[]}"#)
      }
      let report = await reconciliation.run(app, .production)
      #expect(report.failure == nil)
      #expect(report.notificationsRefused == 0)
      #expect(report.notificationsMissed == 2)
      #expect(report.notificationsWaiting == 1)
      #expect(try await harness.position() == harness.clock.now)
      #expect(try await harness.count("notifications WHERE outcome = 'failed'") == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
    }
  }

  @Test func `a notification that cannot be written does not stop its page, and is read again`() async throws
  {
    try await withHarness { harness in
      let bought = try (0..<3).map { _ in try harness.buy(token: UUID()) }
      harness.clock.advance(seconds: 60)
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no'; END $$
        """)
      _ = try await harness.pool.query(
        Query(
          unescaped: "CREATE TRIGGER refuse BEFORE INSERT ON notifications FOR EACH ROW "
            + "WHEN (NEW.notification_uuid = '\(bought[1].notification.uuid)') EXECUTE FUNCTION refuse()"))
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.notificationsFailed == 1)
      #expect(report.notificationsMissed == 2)
      #expect(report.failure != nil)
      _ = try await harness.pool.query("DROP TRIGGER refuse ON notifications")
      harness.clock.advance(seconds: 3 * 3_600)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.failure == nil)
      #expect(next.notificationsMissed == 1)
      #expect(try await harness.position() == harness.clock.now)
    }
  }

  @Test(arguments: [true, false])
  func `a history that does not come to an end is left`(takesTurns: Bool) async throws {
    try await withHarness { harness in
      let asked = Counter()
      let (reconciliation, app) = try harness.reconciliation { number in
        asked.next()
        let token = takesTurns ? "\(number % 2)" : "\(number)"
        // Ends at last, so that a failing test does.
        return .body(
          #"{"hasMore":\#(number < 200),"paginationToken":"\#(token)","notificationHistory":[]}"#)
      }
      let report = await reconciliation.run(
        app, .production, since: harness.clock.now.addingTimeInterval(-60))
      #expect(report.failure == "\(ReconcileFailure.endlessHistory)")
      #expect(asked.count < 40)
    }
  }

  @Test func `what was read before the rest failed stays read`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let page =
        #"{"hasMore":false,"notificationHistory":[{"signedPayload":"\#(bought.notification.signedPayload)"}]}"#
      let (reconciliation, app) = try harness.reconciliation { number in
        number == 1 ? .body(page) : .unauthorized
      }
      let report = await reconciliation.run(app, .production)
      #expect(report.failure?.contains("401") == true)
      #expect(report.notificationsMissed == 1)
      #expect(try await harness.count("notifications") == 1)
      let until = try #require(report.readUntil)
      #expect(until == report.readFrom.addingTimeInterval(MissedNotifications.window))
      #expect(try await harness.position() == until)
      let next = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(next.readFrom == until.addingTimeInterval(-Reconciliation.overlap))
      #expect(try await harness.position() == harness.clock.now)
    }
  }

  @Test func `what a clock that was ahead has written stops nothing when it is right again`() async throws {
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

  @Test func `a mark from the future does not keep a subscription from being asked about`() async throws {
    try await withHarness { harness in
      _ = try await harness.renewsSilently(customers: 1)
      let future = harness.clock.now.addingTimeInterval(400 * 86_400)
      _ = try await harness.pool.query("UPDATE subscriptions SET store_asked_at = \(future)")
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.repairCount == 1)
    }
  }

  @Test func `a beginning in the future is said`() async throws {
    try await withHarness { harness in
      let reports = await harness.service.reconcile(since: harness.clock.now.addingTimeInterval(86_400))
      #expect(reports.allSatisfy { $0.failure == "\(ReconcileFailure.beginsInTheFuture)" })
      #expect(reports.count == 4)
    }
  }
}

private final class Counter: Sendable {
  private let value = Mutex(0)
  var count: Int { value.withLock { $0 } }

  @discardableResult
  func next() -> Int {
    value.withLock {
      $0 += 1
      return $0
    }
  }
}

/// An App Store that answers by the number of the question, the first being 1.
private struct CountedStore: HTTPTransport {
  enum Answer {
    case body(String)
    case unauthorized
  }

  let count = Counter()
  let answer: @Sendable (Int) -> Answer

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    switch answer(count.next()) {
    case .body(let json):
      (HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]), Array(json.utf8))
    case .unauthorized: (HTTPResponse(status: .unauthorized), [])
    }
  }
}

extension Harness {
  /// Reconciling that asks a store of the test's own.
  fileprivate func reconciliation(
    _ answer: @escaping @Sendable (Int) -> CountedStore.Answer
  ) throws -> (Reconciliation, App) {
    let key = store.identity.connectKey
    let api = AppStoreServerAPI(
      transport: CountedStore(answer: answer),
      credentials: try AppStoreCredentials(
        privateKey: key.pem, keyID: key.keyID, issuerID: key.issuerID),
      bundleID: TestApps.climbing)
    let own = service.reconciliation
    let reconciliation = Reconciliation(
      apis: [TestApps.climbing: api], catalog: own.catalog, pool: own.pool, missed: own.missed,
      overdue: own.overdue, clock: own.clock, logger: own.logger)
    return (reconciliation, try #require(own.catalog[TestApps.climbing]))
  }

  /// How far the history of the app in production was read.
  fileprivate func position() async throws -> Date? {
    try await pool.query(
      """
      SELECT history_read_until FROM reconcile_positions
      WHERE bundle_id = \(TestApps.climbing) AND environment = 'Production'
      """
    ).first?.decode(0, as: Date?.self)
  }

  /// Customers whose subscriptions renewed, two hours ago, and nothing told, not even the history.
  fileprivate func renewsSilently(customers: Int, times: Int = 1) async throws -> [String] {
    var ids: [String] = []
    var expires = clock.now
    for _ in 0..<customers {
      let (_, bought) = try await customer()
      ids.append(bought.originalTransactionID)
      expires = try #require(bought.transaction.expiresDate)
    }
    for _ in 0..<times {
      clock.set(expires)
      for id in ids {
        let renewed = try store.withStore(of: .production) { store, now throws(StoreRefusal) in
          try store.perform(.renew, on: id, at: now)
        }
        expires = try #require(renewed.transaction.expiresDate)
      }
    }
    // The first end was missed; the last one has not come yet.
    clock.advance(seconds: 2 * 3_600)
    return ids
  }
}

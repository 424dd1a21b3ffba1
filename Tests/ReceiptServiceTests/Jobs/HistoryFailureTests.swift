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

/// Failures while a reconciliation reads the history of notifications.
@Suite struct HistoryFailureTests {
  @Test func `a failed request for the transaction history loses no earlier period`() async throws {
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

  @Test func `a history window with an invalid notification is read again, and its valid ones are stored`()
    async throws
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

  @Test func `a history with a notification of another environment is not read`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID(), in: .sandbox)
      let page =
        #"{"hasMore":false,"notificationHistory":[{"signedPayload":"\#(bought.notification.signedPayload)"}]}"#
      let (reconciliation, app) = try harness.reconciliation { _ in .body(page) }
      let report = await reconciliation.run(app, .production)
      #expect(report.notificationsRefused > 0 && report.notificationsMissed == 0)
      #expect(try await harness.position() == nil)
    }
  }

  @Test func `a notification of the history with an invalid part is kept, and reading continues`()
    async throws
  {
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

  @Test func `a notification of the history that cannot be written does not stop its page and is read again`()
    async throws
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
  func `a reconciliation stops reading a history without a last page`(takesTurns: Bool) async throws {
    try await withHarness { harness in
      let asked = Counter()
      let (reconciliation, app) = try harness.reconciliation { number in
        asked.next()
        let token = takesTurns ? "\(number % 2)" : "\(number)"
        // The limit ends a failing test.
        return .body(
          #"{"hasMore":\#(number < 200),"paginationToken":"\#(token)","notificationHistory":[]}"#)
      }
      let report = await reconciliation.run(
        app, .production, since: harness.clock.now.addingTimeInterval(-60))
      #expect(report.failure == "\(ReconcileFailure.endlessHistory)")
      #expect(asked.count < 40)
    }
  }

  @Test func `history windows that were read before a failure are not read again`() async throws {
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
}

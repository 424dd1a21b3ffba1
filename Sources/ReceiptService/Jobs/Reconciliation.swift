import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import Ledger
import Logging
import Postgres
import Subscriptions
import Work

/// Finds facts that no notification brought: reads the App Store's notification history since the last run, and
/// requests the statuses of overdue subscriptions.
struct Reconciliation: Sendable {
  let apis: [String: AppStoreServerAPI]
  let catalog: AppCatalog
  let pool: PostgresPool
  let missed: MissedNotifications
  let overdue: OverdueRenewals
  let clock: ServiceClock
  let logger: Logger

  /// A run starts this long before the end of the last one, because Apple may add entries late. In seconds.
  static let overlap: TimeInterval = 3_600

  /// Every app with an App Store Connect key, in each of its environments.
  var subjects: [(app: App, environment: Environment)] {
    catalog.apps.filter { apis[$0.bundleID] != nil }.flatMap { app in
      [Environment.production, .sandbox]
        .filter { environment in app.environments.contains { $0.rawValue == environment.rawValue } }
        .map { (app, $0) }
    }
  }

  /// Reconciles one app in one environment. The report has the failures; corrections before a failure stay.
  /// - Parameter since: the start of the history to read; `nil` for the end of the last run, or for all of the history.
  func run(_ app: App, _ environment: Environment, since: Date? = nil) async -> ReconcileReport {
    let instant = clock.now()
    let reach = instant.addingTimeInterval(-MissedNotifications.historyLength(in: environment))
    var report = ReconcileReport(
      bundleID: app.bundleID, environment: environment, startedAt: instant, readFrom: reach)
    guard let api = apis[app.bundleID] else {
      report.add(failure: "no App Store Connect key is configured for this app")
      return report
    }
    do {
      report.readFrom = max(reach, try await start(app, environment, since, at: instant) ?? reach)
      guard report.readFrom <= instant else { throw ReconcileFailure.beginsInTheFuture }
      try await readHistory(api, app, environment, reach: reach, until: instant, into: &report)
    } catch {
      note(error, of: app, environment, in: &report)
    }
    // The statuses do not depend on the history, so its failure does not stop them.
    do {
      try await overdue.ask(api, app, environment, into: &report)
    } catch {
      note(error, of: app, environment, in: &report)
    }
    if report.notificationsRefused + report.notificationsFailed > 0 {
      report.add(
        failure: "\(report.notificationsRefused + report.notificationsFailed) notifications of the history "
          + "could not be processed; the next run reads them again")
    }
    if report.statusesFailed > 0 {
      report.add(
        failure: "\(report.statusesFailed) statuses could not be processed; the next run requests them again")
    }
    await store(report)
    return report
  }

  private func note(
    _ error: any Error, of app: App, _ environment: Environment, in report: inout ReconcileReport
  ) {
    let reason = (error as? AppStoreServerError)?.reason ?? "\(error)"
    report.add(failure: reason)
    let metadata: Logger.Metadata = [
      "app": "\(app.bundleID)", "environment": "\(environment)", "reason": "\(reason)",
    ]
    // A process that stops cancels its runs.
    if Task.isCancelled {
      logger.debug("a reconciliation was cancelled", metadata: metadata)
    } else {
      logger.error("a reconciliation is incomplete", metadata: metadata)
    }
  }

  private func start(
    _ app: App, _ environment: Environment, _ since: Date?, at instant: Date
  ) async throws -> Date? {
    if let since { return since }
    let rows = try await pool.query(
      ReconcileRows.position(bundleID: app.bundleID, environment: environment.rawValue))
    guard let position = try rows.first?.decode("history_read_until", as: Date?.self),
      position <= instant.addingTimeInterval(ServiceClock.serverTolerance)
    else { return nil }
    return min(position, instant).addingTimeInterval(-Self.overlap)
  }

  private func readHistory(
    _ api: AppStoreServerAPI, _ app: App, _ environment: Environment, reach: Date, until instant: Date,
    into report: inout ReconcileReport
  ) async throws {
    var start = report.readFrom
    while instant.timeIntervalSince(start) >= MissedNotifications.shortestWindow {
      let end = MissedNotifications.windowEnd(from: start, until: instant)
      // After a window with a failure the position stays, and no later window moves it.
      if try await missed.read(api, environment, from: start, until: end, into: &report) {
        _ = try await pool.query(
          ReconcileRows.advance(
            bundleID: app.bundleID, environment: environment.rawValue, from: start, until: end,
            reachesBack: start <= reach, firstSigned: report.firstSignedAt, at: instant))
      }
      report.readUntil = end
      start = end
    }
    let limit = 500
    while try await pool.query(
      OldProofRows.settleByHistory(of: app.bundleID, in: environment.rawValue, limit: limit, at: instant)
    ).count == limit {}
  }

  /// Stores the report for operators. A failure here does not undo the corrections.
  private func store(_ report: ReconcileReport) async {
    do {
      _ = try await pool.query(ReconcileRows.insertRun(report, finishedAt: clock.now()))
    } catch  where Task.isCancelled {
      logger.debug("the report of a cancelled reconciliation was not stored")
    } catch {
      logger.error("a reconciliation report could not be stored", metadata: ["reason": "\(error)"])
    }
  }
}

/// Reconciles every hour. Of several servers, the one that first claims the run does it.
struct ReconcileJob: Sendable {
  let reconciliation: Reconciliation
  let pool: PostgresPool
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  static let interval: TimeInterval = 3_600

  /// Checks every minute whether a run is due.
  var job: BackgroundJob {
    BackgroundJob("reconcile", every: .seconds(60)) { _ = try await runIfDue() }
  }

  /// Reconciles each app and environment that no server has reconciled within the last hour.
  @discardableResult
  func runIfDue() async throws -> [ReconcileReport] {
    var reports: [ReconcileReport] = []
    for (app, environment) in reconciliation.subjects {
      let claim = try await pool.query(
        ReconcileRows.claim(
          bundleID: app.bundleID, environment: environment.rawValue, every: Self.interval, at: clock.now()))
      guard claim.first != nil else { continue }
      let report = await reconciliation.run(app, environment)
      metrics.jobs.reconciled(report)
      for line in report.lines where report.repairCount > 0 || report.notificationsMissed > 0 {
        logger.notice("reconciled", metadata: ["report": "\(line)"])
      }
      reports.append(report)
    }
    return reports
  }
}

/// The queries on `reconcile_positions`, `reconcile_runs` and the overdue rows of `subscriptions`.
enum ReconcileRows {
  /// The end of the history that was read.
  static func position(bundleID: String, environment: String) -> Query {
    """
    SELECT history_read_until FROM reconcile_positions
    WHERE bundle_id = \(bundleID) AND environment = \(environment)
    """
  }

  /// Claims the run for this server. Returns a row unless another server has claimed it within `interval` seconds.
  static func claim(
    bundleID: String, environment: String, every interval: TimeInterval, at instant: Date
  ) -> Query {
    """
    INSERT INTO reconcile_positions AS p (bundle_id, environment, claimed_at)
    VALUES (\(bundleID), \(environment), \(instant))
    ON CONFLICT (bundle_id, environment) DO UPDATE SET claimed_at = excluded.claimed_at
      WHERE p.claimed_at <= \(instant.addingTimeInterval(-interval))
        OR p.claimed_at > \(instant.addingTimeInterval(ServiceClock.serverTolerance))
    RETURNING history_read_until
    """
  }

  /// Records that a window of the history was read, unless an earlier window was not.
  /// - Parameters:
  ///   - reachesBack: whether `start` is the beginning of the history.
  ///   - firstSigned: when the first notification of the run was signed. Apple had no address for notifications before, so
  ///     the history tells nothing of an earlier refund. After a gap that the history does not reach, its beginning is set anew.
  static func advance(
    bundleID: String, environment: String, from start: Date, until end: Date, reachesBack: Bool,
    firstSigned: Date?, at instant: Date
  ) -> Query {
    let known: Date? = reachesBack ? end : nil
    let begin: Date? = reachesBack ? firstSigned : nil
    return """
      INSERT INTO reconcile_positions AS p (bundle_id, environment, history_read_until, history_begins_at, claimed_at)
      VALUES (\(bundleID), \(environment), \(known)::timestamptz, \(begin)::timestamptz, \(instant))
      ON CONFLICT (bundle_id, environment) DO UPDATE SET history_read_until = \(end),
        history_begins_at = CASE WHEN p.history_read_until >= \(start)
          THEN least(p.history_begins_at, \(firstSigned)::timestamptz) ELSE \(firstSigned)::timestamptz END
        WHERE \(reachesBack) OR (p.history_read_until >= \(start) AND p.history_read_until < \(end))
      """
  }

  static func insertRun(_ report: ReconcileReport, finishedAt: Date) -> Query {
    """
    INSERT INTO reconcile_runs (bundle_id, environment, started_at, finished_at, read_from, read_until,
      notifications_read, notifications_missed, statuses_asked, repaired, error)
    VALUES (\(report.bundleID), \(report.environment), \(report.startedAt), \(finishedAt),
      \(report.readFrom), \(report.readUntil)::timestamptz, \(report.notificationsRead),
      \(report.notificationsMissed), \(report.statusesAsked),
      \(report.repairs.map(\.originalTransactionID))::text[], \(report.failure)::text)
    """
  }

  /// Claims one subscription that should have renewed at least an hour ago, and returns it.
  ///
  /// No notification has reported its end, or that its renewal is off. Apple retries a charge for 60 days, so older
  /// subscriptions are left out. Other servers leave out the subscription for `lease` seconds; ``markAsked(_:at:)``
  /// makes that a day once there is a response. Subscriptions that were tried before come last, so that one that always
  /// fails does not delay the others.
  /// - Parameter run: the start of this run; a subscription that was tried since is not returned again.
  static func claimOverdue(
    bundleID: String, environment: String, run: Date, at instant: Date, lease: TimeInterval
  ) -> Query {
    """
    UPDATE subscriptions SET store_asked_at = \(instant.addingTimeInterval(lease - 86_400))
    WHERE original_transaction_id IN (
      SELECT s.original_transaction_id FROM subscriptions s
      LEFT JOIN renewals r USING (original_transaction_id)
      WHERE s.bundle_id = \(bundleID) AND s.environment = \(environment)
        AND s.kind = 'Auto-Renewable Subscription' AND s.revoked_at IS NULL
        AND s.expiry_date <= \(instant.addingTimeInterval(-3_600))
        AND s.expiry_date > \(instant.addingTimeInterval(-65 * 86_400))
        AND (s.store_asked_at IS NULL OR s.store_asked_at <= \(run.addingTimeInterval(-86_400))
          OR s.store_asked_at > \(instant.addingTimeInterval(ServiceClock.serverTolerance)))
        AND NOT coalesce(r.signed_at >= s.purchase_date AND NOT r.will_auto_renew
          AND NOT r.is_in_billing_retry, false)
        AND NOT coalesce(r.signed_at >= s.expiry_date AND r.expiration_intent IS NOT NULL
          AND NOT r.is_in_billing_retry, false)
      ORDER BY s.store_asked_at NULLS FIRST, s.expiry_date LIMIT 1
      FOR UPDATE OF s SKIP LOCKED)
    RETURNING original_transaction_id
    """
  }

  /// Records that the App Store has answered about a subscription.
  static func markAsked(_ originalTransactionID: String, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET store_asked_at = \(instant)
    WHERE original_transaction_id = \(originalTransactionID)
    """
  }

  /// Returns a row if the transaction is known.
  static func known(transactionID: String) -> Query {
    "SELECT 1 FROM transactions WHERE transaction_id = \(transactionID)"
  }
}

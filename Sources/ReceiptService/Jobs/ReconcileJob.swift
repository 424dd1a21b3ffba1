import AppStore
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

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

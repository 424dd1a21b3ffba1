import AppStore
import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Reconciles every hour. Of several servers the first to see that it is time does it.
struct ReconcileJob: Sendable {
  let reconciliation: Reconciliation
  let pool: PostgresPool
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  static let interval: TimeInterval = 3_600
  private static let pause = Duration.seconds(60)

  /// Runs until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      do {
        try await runIfDue()
      } catch {
        logger.warning("reconciling was put off", metadata: ["reason": "\(error)"])
      }
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Reconciles what nobody has within the last hour.
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
        logger.notice("reconciled", metadata: ["what": "\(line)"])
      }
      reports.append(report)
    }
    return reports
  }
}

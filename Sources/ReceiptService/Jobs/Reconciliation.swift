import AppStore
import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// Finds facts that no notification brought: reads the App Store's notification history since the last run, and requests
/// the statuses of overdue subscriptions.
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
      position <= instant.addingTimeInterval(ReconcileRows.clockTolerance)
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

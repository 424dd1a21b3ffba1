import AppStore
import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Makes good what the network swallowed: reads the App Store's notification history since the last time, and
/// asks about renewals that are overdue without news.
struct Reconciliation: Sendable {
  let apis: [String: AppStoreServerAPI]
  let catalog: AppCatalog
  let pool: PostgresPool
  let missed: MissedNotifications
  let overdue: OverdueRenewals
  let clock: ServiceClock
  let logger: Logger

  /// A piece that was read is read again from this long before its end: the history may get an entry late.
  static let overlap: TimeInterval = 3_600

  /// What can be reconciled: every app with a key, in every environment that it takes.
  var subjects: [(app: App, environment: Environment)] {
    catalog.apps.filter { apis[$0.bundleID] != nil }.flatMap { app in
      [Environment.production, .sandbox]
        .filter { environment in app.environments.contains { $0.rawValue == environment.rawValue } }
        .map { (app, $0) }
    }
  }

  /// Reconciles one app in one environment. What fails is in the report, and what was done before stays done.
  /// - Parameter since: where to begin; `nil` for where the last time ended, or else as far back as there is.
  func run(_ app: App, _ environment: Environment, since: Date? = nil) async -> ReconcileReport {
    let instant = clock.now()
    let reach = instant.addingTimeInterval(-MissedNotifications.reach(in: environment))
    var report = ReconcileReport(
      bundleID: app.bundleID, environment: environment, startedAt: instant, readFrom: reach)
    guard let api = apis[app.bundleID] else {
      report.note(failure: "no App Store Connect key is configured for this app")
      return report
    }
    do {
      report.readFrom = max(reach, try await start(app, environment, since, at: instant) ?? reach)
      guard report.readFrom <= instant else { throw ReconcileFailure.beginsInTheFuture }
      try await readHistory(api, app, environment, reach: reach, until: instant, into: &report)
    } catch {
      note(error, of: app, environment, in: &report)
    }
    // The statuses do not depend on the history: what ails it shall not keep them waiting.
    do {
      try await overdue.ask(api, app, environment, into: &report)
    } catch {
      note(error, of: app, environment, in: &report)
    }
    if report.notificationsRefused + report.notificationsFailed > 0 {
      report.note(
        failure: "\(report.notificationsRefused + report.notificationsFailed) notifications of the history "
          + "could not be taken in, so it will be read again from there")
    }
    if report.statusesFailed > 0 {
      report.note(failure: "\(report.statusesFailed) statuses could not be taken in, and will be asked again")
    }
    await keep(report)
    return report
  }

  private func note(
    _ error: any Error, of app: App, _ environment: Environment, in report: inout ReconcileReport
  ) {
    let reason = (error as? AppStoreServerError)?.reason ?? "\(error)"
    report.note(failure: reason)
    logger.error(
      "reconciling ended early",
      metadata: ["app": "\(app.bundleID)", "environment": "\(environment)", "reason": "\(reason)"])
  }

  private func start(
    _ app: App, _ environment: Environment, _ since: Date?, at instant: Date
  ) async throws -> Date? {
    if let since { return since }
    let rows = try await pool.query(
      ReconcileRows.position(bundleID: app.bundleID, environment: environment.rawValue))
    guard let position = try rows.first?.decode(0, as: Date?.self),
      position <= instant.addingTimeInterval(ReconcileRows.clockTolerance)
    else { return nil }
    return min(position, instant).addingTimeInterval(-Self.overlap)
  }

  private func readHistory(
    _ api: AppStoreServerAPI, _ app: App, _ environment: Environment, reach: Date, until instant: Date,
    into report: inout ReconcileReport
  ) async throws {
    var start = report.readFrom
    while start < instant {
      let end = min(start.addingTimeInterval(MissedNotifications.window), instant)
      // Where something was not taken in the position stays, and no later piece moves it past that one.
      if try await missed.read(api, environment, from: start, until: end, into: &report) {
        _ = try await pool.query(
          ReconcileRows.advance(
            bundleID: app.bundleID, environment: environment.rawValue, from: start, until: end,
            reachesBack: start <= reach, at: instant))
      }
      report.readUntil = end
      start = end
    }
  }

  /// The report is for people; that it cannot be kept does not undo what was done.
  private func keep(_ report: ReconcileReport) async {
    do {
      _ = try await pool.query(ReconcileRows.insertRun(report, finishedAt: clock.now()))
    } catch {
      logger.error("a report of reconciling could not be kept", metadata: ["reason": "\(error)"])
    }
  }
}

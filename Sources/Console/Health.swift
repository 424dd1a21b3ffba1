import Actions
import Configuration
import Foundation
import HTTP
import Postgres

/// What a server tells about itself.
package struct ServerFacts: Sendable {
  /// The version of receiptd.
  let version: String
  /// The digest of the configuration in use.
  let configurationDigest: String
  /// Runs the checks of `receiptd doctor`.
  let check: @Sendable () async -> [Check]

  /// A line of `receiptd doctor`.
  package struct Check: Sendable {
    let subject: String
    let isOK: Bool
    let isWarning: Bool
    let message: String
    let remedy: String?

    /// A line.
    package init(subject: String, isOK: Bool, isWarning: Bool, message: String, remedy: String?) {
      self.subject = subject
      self.isOK = isOK
      self.isWarning = isWarning
      self.message = message
      self.remedy = remedy
    }
  }

  /// The facts of one server.
  /// - Parameter check: runs the checks.
  package init(version: String, configurationDigest: String, check: @escaping @Sendable () async -> [Check]) {
    self.version = version
    self.configurationDigest = configurationDigest
    self.check = check
  }
}

extension Console {
  /// *Health*: what waits, the last reconcile runs, and on demand the lines of `receiptd doctor`.
  static func health(_ parts: Parts) -> ConsoleScreen {
    ConsoleScreen(
      entry: "Health", path: "/console/health", operation: .reconcile,
      pages: [
        ConsolePage(path: "/console/health", operation: .reconcile) { request in
          let instant = request.instant
          let answers = try await parts.pool.withConnection { connection in
            try await connection.pipeline([HealthRows.waiting(at: instant), HealthRows.runs])
          }
          // Some checks ask other servers, so they run when a person asks for them.
          let checks = request.value("checks") == nil ? nil : await parts.server.check()
          return .page(
            ConsoleContent(
              title: "Health", template: "health",
              content: try HealthContent(
                parts.server, checks, waiting: answers[0][0], runs: answers[1], from: instant),
              refreshes: checks == nil))
        }
      ],
      templates: ["health": PackageResources.health_mustache])
  }
}

private struct HealthContent: Sendable {
  let version: String
  let digest: String
  let now: String
  let lag: String
  let isLate: Bool
  let waitingNotifications: Int
  let waitingDeliveries: Int
  let deadDeliveries: Int
  let checks: [Line]?
  let asksForChecks: Bool
  let runs: [Run]

  struct Line: Sendable {
    let subject: String
    let message: String
    let remedy: String?
    let word: String
    let level: String
  }

  struct Run: Sendable {
    let app: String
    let environment: String
    let began: Moment
    let read: Int
    let missed: Int
    let repaired: Int
    let failure: String?
  }

  init(_ server: ServerFacts, _ checks: [ServerFacts.Check]?, waiting: Row, runs: Rows, from now: Date) throws
  {
    version = server.version
    digest = server.configurationDigest
    self.now = Moment(now, from: now).text
    let due: Date? = try waiting.decode("oldest_due")
    let seconds = due.map { max(0, now.timeIntervalSince($0)) } ?? 0
    isLate = seconds > 120
    lag = seconds < 1 ? "none" : "\(Int(seconds)) s"
    waitingNotifications = try waiting.decode("notifications")
    waitingDeliveries = try waiting.decode("deliveries")
    deadDeliveries = try waiting.decode("dead")
    self.checks = checks?.map {
      Line(
        subject: $0.subject, message: $0.message, remedy: $0.remedy,
        word: $0.isOK ? $0.isWarning ? "look" : "ok" : "fails",
        level: $0.isOK ? $0.isWarning ? "warn" : "good" : "bad")
    }
    asksForChecks = checks == nil
    self.runs = try runs.map { row in
      Run(
        app: try row.decode("bundle_id"), environment: try row.decode("environment"),
        began: Moment(try row.decode("started_at"), from: now), read: try row.decode("notifications_read"),
        missed: try row.decode("notifications_missed"), repaired: try row.decode("repaired"),
        failure: try row.decode("error"))
    }
  }
}

private enum HealthRows {
  /// Counts end at 10,000.
  static func waiting(at instant: Date) -> Postgres.Query {
    """
    SELECT (SELECT min(next_change_at) FROM subscriptions WHERE next_change_at <= \(instant)) AS oldest_due,
      (SELECT count(*) FROM (SELECT FROM notifications WHERE processed_at IS NULL LIMIT 10000) AS n) AS notifications,
      (SELECT count(*) FROM (SELECT FROM outbox WHERE done_at IS NULL AND dead_at IS NULL LIMIT 10000) AS o) AS deliveries,
      (SELECT count(*) FROM (SELECT FROM outbox WHERE done_at IS NULL AND dead_at IS NOT NULL LIMIT 10000) AS d) AS dead
    """
  }

  static let runs: Postgres.Query = """
    SELECT bundle_id, environment, started_at, notifications_read, notifications_missed, cardinality(repaired) AS repaired, error
    FROM reconcile_runs ORDER BY started_at DESC LIMIT 12
    """
}

import Actions
import Configuration
import Foundation
import HTTP
import Postgres
import Runbooks

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
            try await connection.pipeline([
              HealthRows.waiting(at: instant), HealthRows.runs, HealthRows.servers,
            ])
          }
          // Some checks ask other servers, so they run when a person asks for them.
          let checks = request.value("checks") == nil ? nil : await parts.server.check()
          return .page(
            ConsoleContent(
              title: "Health", template: "health",
              content: try HealthContent(
                parts.server, checks, waiting: answers[0][0], runs: answers[1], servers: answers[2],
                from: instant),
              refreshes: checks == nil))
        },
        ConsolePage(path: "/console/runbooks/{alert}", operation: .reconcile) { request in
          let alert: String = try request.request.parameters.require("alert")
          guard let text = Runbooks.sections[alert] else {
            throw Problem.notFound("There is no runbook of '\(alert)'.")
          }
          return .page(
            ConsoleContent(title: alert, template: "runbook", content: RunbookContent(alert, text)))
        },
      ],
      templates: [
        "health": PackageResources.health_mustache, "runbook": PackageResources.runbook_mustache,
      ])
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
  /// What an operator should look at.
  let conditions: [HealthCondition]
  let areFine: Bool
  let servers: [ShownServer]
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

  init(
    _ server: ServerFacts, _ checks: [ServerFacts.Check]?, waiting: Row, runs: Rows, servers: Rows,
    from now: Date
  ) throws {
    version = server.version
    digest = server.configurationDigest
    self.now = Moment(now, from: now).text
    let due: Date? = try waiting.decode("oldest_due")
    let seconds = due.map { max(0, now.timeIntervalSince($0)) } ?? 0
    isLate = seconds > HealthCondition.longestLag
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
    let runs = try runs.map { row in
      Run(
        app: try row.decode("bundle_id"), environment: try row.decode("environment"),
        began: Moment(try row.decode("started_at"), from: now), read: try row.decode("notifications_read"),
        missed: try row.decode("notifications_missed"), repaired: try row.decode("repaired"),
        failure: try row.decode("error"))
    }
    self.runs = runs
    let all = try servers.map { try ShownServer($0, from: now) }
    self.servers = all
    let oldest: Date? = try waiting.decode("oldest_delivery")
    var known: Set<String> = []
    // The latest run of each app and environment comes first.
    let failed = runs.filter { known.insert("\($0.app) (\($0.environment))").inserted && $0.failure != nil }
    conditions = HealthCondition.all(
      lag: seconds, notifications: waitingNotifications, dead: deadDeliveries,
      oldestDelivery: oldest.map { now.timeIntervalSince($0) } ?? 0,
      refusedStatuses: try waiting.decode("statuses"),
      incomplete: failed.map { "\($0.app) (\($0.environment))" },
      servers: all)
    areFine = conditions.isEmpty
  }
}

/// A server that runs, by its heartbeat.
private struct ShownServer: Sendable {
  let name: String
  let version: String
  let configuration: String
  let started: Moment
  let seen: Moment
  /// Whether its heartbeat is missing.
  let isSilent: Bool
  let rate: String
  let requests: Double
  let errors: Int
  let p99Seconds: Double?
  let p99: String
  let circuits: String
  let openCircuits: [String]

  /// Four heartbeats, in seconds.
  private static let silence: TimeInterval = 60

  init(_ row: Row, from now: Date) throws {
    name = try row.decode("name")
    version = try row.decode("version")
    configuration = try row.decode("configuration")
    started = Moment(try row.decode("started_at"), from: now)
    let last: Date = try row.decode("seen_at")
    seen = Moment(last, from: now)
    isSilent = now.timeIntervalSince(last) > Self.silence
    let perSecond = (try row.decode("requests_per_second", as: Double?.self)).flatMap {
      $0.isFinite ? $0 : nil
    }
    requests = perSecond ?? 0
    rate = perSecond.map { String(format: $0 < 10 ? "%.1f" : "%.0f", $0) } ?? "–"
    errors = try row.decode("server_errors", as: Int?.self) ?? 0
    p99Seconds = (try row.decode("p99_seconds", as: Double?.self)).flatMap {
      (0..<86_400).contains($0) ? $0 : nil
    }
    p99 =
      p99Seconds.map { $0 < 1 ? "\(Int(($0 * 1_000).rounded(.up))) ms" : "\(Int($0.rounded(.up))) s" } ?? "–"
    openCircuits = try row.decode("open_circuits")
    circuits = openCircuits.isEmpty ? "closed" : "open: " + openCircuits.joined(separator: ", ")
  }
}

/// A condition that an operator should look at, as an alert of the same name tells it once it lasts.
struct HealthCondition: Sendable {
  /// The alert in config/alerts.yml.
  let alert: String
  let words: String
  let path: String

  init(_ alert: String, _ words: String) {
    self.alert = alert
    self.words = words
    path = "/console/runbooks/\(alert)"
  }

  // The thresholds of config/alerts.yml, in seconds.
  static let longestLag: TimeInterval = 300
  private static let oldestDelivery: TimeInterval = 900
  private static let slowest = 5.0

  fileprivate static func all(
    lag: TimeInterval, notifications: Int, dead: Int, oldestDelivery: TimeInterval, refusedStatuses: Int,
    incomplete: [String], servers: [ShownServer]
  ) -> [HealthCondition] {
    var found: [HealthCondition] = []
    let running = servers.filter { !$0.isSilent }
    for server in servers where server.isSilent {
      found.append(
        HealthCondition(
          "ReceiptdDown",
          "\(server.name) has had no heartbeat since \(server.seen.text), and was not stopped."))
    }
    for server in running {
      // The window has about a minute.
      let isFailing = server.errors >= 5 && Double(server.errors) > server.requests * 60 * 0.01
      if isFailing {
        found.append(
          HealthCondition(
            "ReceiptdServerErrors", "\(server.name) answered 5xx \(server.errors) times within a minute."))
      }
      if let p99 = server.p99Seconds, p99 > slowest {
        found.append(
          HealthCondition(
            "ReceiptdValidationSlow", "99 of 100 answers of \(server.name) take up to \(server.p99)."))
      }
    }
    for circuit in Set(running.flatMap(\.openCircuits)).sorted() {
      found.append(
        HealthCondition("ReceiptdStoreCircuitOpen", "The App Store does not answer for \(circuit)."))
    }
    if Set(running.map(\.configuration)).count > 1 {
      found.append(
        HealthCondition("ReceiptdConfigurationsDiffer", "The servers have different configurations."))
    }
    if lag > longestLag {
      found.append(
        HealthCondition("ReceiptdSweepLag", "A due row of subscriptions has waited for \(Int(lag)) s."))
    }
    if notifications > 0 {
      found.append(
        HealthCondition(
          "ReceiptdNotificationsWaiting",
          "\(notifications) notifications wait for a configuration or a version."))
    }
    if oldestDelivery > Self.oldestDelivery {
      found.append(
        HealthCondition("ReceiptdOutboxOld", "A delivery has waited for \(Int(oldestDelivery / 60)) minutes.")
      )
    }
    if dead > 0 {
      found.append(HealthCondition("ReceiptdDeadLetters", "\(dead) deliveries were given up."))
    }
    if refusedStatuses > 0 {
      found.append(
        HealthCondition(
          "ReceiptdProfileWrites", "An app's own table refuses the status of \(refusedStatuses) users."))
    }
    for run in incomplete {
      found.append(
        HealthCondition("ReceiptdReconcileIncomplete", "The last reconciling of \(run) ended early."))
    }
    return found
  }
}

/// A runbook: paragraphs, and what stands apart (commands, tables).
private struct RunbookContent: Sendable {
  let alert: String
  let blocks: [Block]

  struct Block: Sendable {
    let text: String
    let isApart: Bool
  }

  init(_ alert: String, _ markdown: String) {
    self.alert = alert
    var blocks: [Block] = []
    var lines: [Substring] = []
    var (isCode, isTable) = (false, false)
    func end(_ isApart: Bool) {
      if !lines.isEmpty { blocks.append(Block(text: lines.joined(separator: "\n"), isApart: isApart)) }
      lines = []
    }
    for line in markdown.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("```") {
        end(isCode || isTable)
        (isCode, isTable) = (!isCode, false)
      } else if isCode {
        lines.append(line)
      } else if line.isEmpty {
        end(isTable)
        isTable = false
      } else {
        isTable = isTable || line.hasPrefix("|") || line.hasPrefix("- ") || line.hasPrefix("1. ")
        lines.append(line)
      }
    }
    end(isCode || isTable)
    self.blocks = blocks
  }
}

private enum HealthRows {
  /// Counts end at 10,000.
  static func waiting(at instant: Date) -> Postgres.Query {
    """
    SELECT (SELECT min(next_change_at) FROM subscriptions WHERE next_change_at <= \(instant)) AS oldest_due,
      (SELECT count(*) FROM (SELECT FROM notifications WHERE processed_at IS NULL LIMIT 10000) AS n) AS notifications,
      (SELECT count(*) FROM (SELECT FROM outbox WHERE done_at IS NULL AND dead_at IS NULL LIMIT 10000) AS o) AS deliveries,
      (SELECT min(created_at) FROM outbox WHERE done_at IS NULL AND dead_at IS NULL) AS oldest_delivery,
      (SELECT count(*) FROM (
        SELECT FROM outbox WHERE destination = 'profiles' AND done_at IS NULL AND dead_at IS NULL AND last_error IS NOT NULL
        LIMIT 1000) AS p) AS statuses,
      (SELECT count(*) FROM (SELECT FROM outbox WHERE done_at IS NULL AND dead_at IS NOT NULL LIMIT 10000) AS d) AS dead
    """
  }

  static let servers: Postgres.Query = """
    SELECT name, version, configuration, started_at, seen_at, requests_per_second, server_errors, p99_seconds, open_circuits
    FROM servers ORDER BY name, started_at LIMIT 100
    """

  static let runs: Postgres.Query = """
    SELECT bundle_id, environment, started_at, notifications_read, notifications_missed, cardinality(repaired) AS repaired, error
    FROM reconcile_runs ORDER BY started_at DESC LIMIT 12
    """
}

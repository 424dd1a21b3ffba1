import CoreMetrics
import FoundationEssentials
import Logging
import Postgres
import PrometheusText

/// Reads from the database what only the database knows: how much waits, and for how long.
///
/// Not when somebody asks for metrics, so that a scrape costs the database nothing and is answered while it is away.
/// Every query reads an index to a bound: beyond that there is trouble enough, and more of it makes no other alert. Every
/// server reads the same figures; of several, the largest is meant.
struct DatabaseFigures: Sendable {
  let pool: PostgresPool
  let apps: [String]
  let clock: ServiceClock
  let logger: Logger
  let meters: Meters

  private static let pause = Duration.seconds(15)
  /// The 30 days of trials are read once in so many turns.
  private static let turnsForTrials = 40

  /// Where figures are shown.
  struct Meters: Sendable {
    let isUp: Meter
    let readAt: Meter
    let sweepLag: Meter
    let waitingNotifications: Meter
    let outboxRows: HandleTable<OutboxKey, Meter>
    let outboxAge: HandleTable<OutboxKey, Meter>
    let trialsEnded: HandleTable<String, Meter>
    let trialsConverted: HandleTable<String, Meter>

    struct OutboxKey: Hashable {
      var destination: String
      var app: String
      var state = ""
    }

    init(_ registry: PrometheusRegistry) {
      isUp = Meter(label: "receiptd_database_up", factory: registry)
      readAt = Meter(label: "receiptd_database_figures_read_seconds", factory: registry)
      sweepLag = Meter(label: "receiptd_sweep_lag_seconds", factory: registry)
      waitingNotifications = Meter(label: "receiptd_notifications_waiting", factory: registry)
      outboxRows = HandleTable { key in
        Meter(
          label: "receiptd_outbox_rows",
          dimensions: [("destination", key.destination), ("app", key.app), ("state", key.state)],
          factory: registry)
      }
      outboxAge = HandleTable { key in
        Meter(
          label: "receiptd_outbox_oldest_seconds",
          dimensions: [("destination", key.destination), ("app", key.app)], factory: registry)
      }
      trialsEnded = HandleTable { app in
        Meter(label: "receiptd_trials_ended_recently", dimensions: [("app", app)], factory: registry)
      }
      trialsConverted = HandleTable { app in
        Meter(
          label: "receiptd_trials_ended_recently_converted", dimensions: [("app", app)], factory: registry)
      }
    }
  }

  /// Reads until the task is cancelled.
  /// - Parameter lanes: the places that are shown as empty where nothing waits.
  func runForever(_ lanes: [OutboxLane]) async {
    var turn = 0
    while !Task.isCancelled {
      await read(lanes)
      if turn.isMultiple(of: Self.turnsForTrials) { await readTrials() }
      turn += 1
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Reads what waits.
  func read(_ lanes: [OutboxLane]) async {
    let instant = clock.now()
    do {
      let answers = try await pool.withConnection { connection in
        try await connection.pipeline([
          FigureRows.oldestDue(in: apps, at: instant), FigureRows.waitingNotifications, FigureRows.outbox,
          FigureRows.deadLetters,
        ])
      }
      let due = try answers[0].first?.decode(0, as: Date.self)
      meters.sweepLag.set(due.map { max(0, instant.timeIntervalSince($0)) } ?? 0)
      meters.waitingNotifications.set(try answers[1][0].decode(0, as: Int.self))
      try show(answers[2], answers[3], lanes, at: instant)
      meters.isUp.set(1)
      meters.readAt.set(instant.timeIntervalSince1970)
    } catch {
      meters.isUp.set(0)
      logger.debug("figures could not be read", metadata: ["reason": "\(error)"])
    }
  }

  /// Reads how many of the latest trials became purchases. It looks at every trial, so it is not done often.
  func readTrials() async {
    do {
      for row in try await pool.query(FigureRows.trials(of: apps, at: clock.now())) {
        let app = try row.decode(0, as: String.self)
        meters.trialsEnded[app].set(try row.decode(1, as: Int.self))
        meters.trialsConverted[app].set(try row.decode(2, as: Int.self))
      }
    } catch {
      logger.debug("figures of trials could not be read", metadata: ["reason": "\(error)"])
    }
  }

  private func show(
    _ waiting: Rows, _ dead: Rows, _ lanes: [OutboxLane], at instant: Date
  ) throws {
    typealias Key = Meters.OutboxKey
    var rows: [Key: Int] = [:]
    var ages: [Key: TimeInterval] = [:]
    // A place that is empty is shown as such, else its last figure would stand for ever.
    let places = lanes.map { Key(destination: $0.destination.rawValue, app: $0.bundleID) }
    for place in places + [Key(destination: OutboxRows.profiles, app: "")] {
      ages[place] = 0
      for state in ["waiting", "dead"] {
        rows[Key(destination: place.destination, app: place.app, state: state)] = 0
      }
    }
    for row in waiting {
      let place = Key(destination: try row.decode(0), app: try row.decode(1))
      rows[Key(destination: place.destination, app: place.app, state: "waiting")] = try row.decode(2)
      ages[place] = max(0, instant.timeIntervalSince(try row.decode(3)))
    }
    for row in dead {
      rows[Key(destination: try row.decode(0), app: try row.decode(1), state: "dead")] = try row.decode(2)
    }
    for (key, count) in rows { meters.outboxRows[key].set(count) }
    for (key, age) in ages { meters.outboxAge[key].set(age) }
  }
}

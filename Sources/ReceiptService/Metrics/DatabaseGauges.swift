import CoreMetrics
import Foundation
import Postgres
import PrometheusText
import Subscriptions
import Work

/// The gauges whose values are in the database: the number of rows that wait, and their age.
///
/// A job reads them, not the scrape: a scrape costs the database nothing, and works while the database is unavailable.
/// Every query reads an index up to a limit, because a larger value changes no alert. All servers read the same values; a
/// query over several servers takes the largest.
struct DatabaseGauges: Sendable {
  let pool: PostgresPool
  let apps: [String]
  /// The destinations that get a value also while no row waits for them.
  let destinations: [OutboxDestination]
  let clock: ServiceClock
  let meters: Meters

  /// The handles of the gauges.
  struct Meters: Sendable {
    let isUp: Meter
    let readAt: Meter
    let sweepLag: Meter
    let waitingNotifications: Meter
    let outboxRows: HandleTable<OutboxKey, Meter>
    let outboxAge: HandleTable<OutboxKey, Meter>
    let clientWrites: HandleTable<ClientWritesKey, Meter>
    let trialsEnded: HandleTable<String, Meter>
    let trialsConverted: HandleTable<String, Meter>

    struct OutboxKey: Hashable {
      var destination: String
      var app: String
      var state = ""
    }

    struct ClientWritesKey: Hashable {
      var table: String
      var mode: String
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
      clientWrites = HandleTable { key in
        Meter(
          label: "receiptd_client_writes_recently", dimensions: [("table", key.table), ("mode", key.mode)],
          factory: registry)
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

  /// Reads the gauges every 15 seconds; the trials and the client writes, of which it reads every row, every ten minutes.
  var jobs: [BackgroundJob] {
    [
      BackgroundJob("database gauges", every: .seconds(15)) { try await read() },
      BackgroundJob("trial gauges", every: .seconds(600)) { try await readTrials() },
      BackgroundJob("client write gauges", every: .seconds(600)) { try await readClientWrites() },
    ]
  }

  /// Reads how many rows wait, and for how long.
  func read() async throws {
    let instant = clock.now()
    do {
      let answers = try await pool.withConnection { connection in
        try await connection.pipeline([
          GaugeRows.oldestDue(in: apps, at: instant), GaugeRows.waitingNotifications, GaugeRows.outbox,
          GaugeRows.deadLetters,
        ])
      }
      let due = try answers[0].first?.decode("next_change_at", as: Date.self)
      meters.sweepLag.set(due.map { max(0, instant.timeIntervalSince($0)) } ?? 0)
      meters.waitingNotifications.set(try answers[1][0].decode("rows", as: Int.self))
      try show(answers[2].map(GaugeRows.Waiting.init), answers[3].map(GaugeRows.Dead.init), at: instant)
      meters.isUp.set(1)
      meters.readAt.set(instant.timeIntervalSince1970)
    } catch {
      meters.isUp.set(0)
      throw error
    }
  }

  /// Reads how many of the latest trials became purchases.
  func readTrials() async throws {
    for row in try await pool.query(GaugeRows.trials(of: apps, at: clock.now())).map(GaugeRows.Trials.init) {
      meters.trialsEnded[row.app].set(row.ended)
      meters.trialsConverted[row.app].set(row.converted)
    }
  }

  /// Reads how often clients wrote to premium columns within 30 days. Only the mode in force has a value other than zero.
  func readClientWrites() async throws {
    let modes = try await ClientWriteModes.read(pool)
    let recent = try await pool.query(ClientWriteRows.recent(at: clock.now())).map(
      ClientWriteRows.Recent.init)
    for stored in modes {
      let writes = recent.first { $0.table == stored.table }?.writes ?? 0
      for mode in ClientWrites.allCases {
        meters.clientWrites[Meters.ClientWritesKey(table: stored.table, mode: mode.rawValue)]
          .set(mode == stored.mode ? writes : 0)
      }
    }
  }

  private func show(_ waiting: [GaugeRows.Waiting], _ dead: [GaugeRows.Dead], at instant: Date) {
    typealias Key = Meters.OutboxKey
    var rows: [Key: Int] = [:]
    var ages: [Key: TimeInterval] = [:]
    // A destination without rows gets zeros, so that its last value does not stay.
    let known = destinations.map { Key(destination: $0.kind.rawValue, app: $0.bundleID) }
    for key in known + [Key(destination: OutboxRows.profiles, app: "")] {
      ages[key] = 0
      for state in ["waiting", "dead"] {
        rows[Key(destination: key.destination, app: key.app, state: state)] = 0
      }
    }
    for row in waiting {
      rows[Key(destination: row.destination, app: row.app, state: "waiting")] = row.rows
      ages[Key(destination: row.destination, app: row.app)] = max(0, instant.timeIntervalSince(row.oldest))
    }
    for row in dead { rows[Key(destination: row.destination, app: row.app, state: "dead")] = row.rows }
    for (key, count) in rows { meters.outboxRows[key].set(count) }
    for (key, age) in ages { meters.outboxAge[key].set(age) }
  }
}

import Adoption
import CoreMetrics
import Customers
import Foundation
import Ledger
import Postgres
import PrometheusText
import Subscriptions
import Work

/// The gauges whose values are in the database: the number of rows that wait, and their age.
///
/// A job reads them, not the scrape: a scrape costs the database nothing, and works while the database is unavailable.
/// Every query reads an index up to a limit, because a larger value changes no alert. All servers read the same values;
/// a query over several servers takes the largest.
struct DatabaseGauges: Sendable {
  let pool: PostgresPool
  let apps: [String]
  /// The destinations that get a value also while no row waits for them.
  let destinations: [OutboxDestination]
  let clock: ServiceClock
  let meters: Meters

  /// The metrics of the gauges.
  struct Meters: Sendable {
    let isUp: Meter
    let readAt: Meter
    let sweepLag: Meter
    let waitingNotifications: Meter
    let outboxRows: MetricFamily<Meter, String, String, String>
    let outboxAge: MetricFamily<Meter, String, String>
    let workRows: MetricFamily<Meter, String, String, String>
    let workAge: MetricFamily<Meter, String, String>
    let clientWrites: MetricFamily<Meter, String, ClientWrites>
    let trialsEnded: MetricFamily<Meter, String>
    let trialsConverted: MetricFamily<Meter, String>

    init(_ registry: PrometheusRegistry) {
      isUp = registry.gauge(
        "receiptd_database_up", "1 if the last read of the gauges from the database succeeded.")
      readAt = registry.gauge(
        "receiptd_database_figures_read_seconds",
        "Time of the last read of the gauges from the database, in seconds since 1970.")
      sweepLag = registry.gauge(
        "receiptd_sweep_lag_seconds",
        "Time for which the most overdue row has waited for the sweep, in seconds.")
      waitingNotifications = registry.gauge(
        "receiptd_notifications_waiting", "Notifications that wait for a replay.")
      outboxRows = registry.gauges(
        "receiptd_outbox_rows", "Rows of the outbox, by destination, app and state.", "destination", "app",
        "state")
      outboxAge = registry.gauges(
        "receiptd_outbox_oldest_seconds", "Age of the oldest undelivered change, in seconds.", "destination",
        "app")
      workRows = registry.gauges(
        "receiptd_work_rows", "Rows of all queues, by kind, app and state.", "kind", "app", "state")
      workAge = registry.gauges(
        "receiptd_work_oldest_seconds", "Age of the oldest row that waits, in seconds.", "kind", "app")
      clientWrites = registry.gauges(
        "receiptd_client_writes_recently",
        "Writes of clients to the premium columns of the app's own tables within the last 30 days.", "table",
        "mode")
      trialsEnded = registry.gauges(
        "receiptd_trials_ended_recently", "Trials in production that ended within the last 30 days.", "app")
      trialsConverted = registry.gauges(
        "receiptd_trials_ended_recently_converted", "Trials of these that were paid for.", "app")
    }
  }

  /// Reads the gauges every 15 seconds; the trials and the client writes, of which it reads every row, every ten
  /// minutes.
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
          GaugeRows.oldestDue(in: apps, at: instant), GaugeRows.waitingNotifications, GaugeRows.deliveries,
          GaugeRows.otherWork,
        ])
      }
      let due = try answers[0].first?.decode("next_change_at", as: Date.self)
      meters.sweepLag.set(due.map { max(0, instant.timeIntervalSince($0)) } ?? 0)
      meters.waitingNotifications.set(try answers[1][0].decode("rows", as: Int.self))
      try show(answers[2].map(GaugeRows.Work.init), answers[3].map(GaugeRows.Work.init), at: instant)
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

  /// Reads how often clients wrote to premium columns within 30 days. Only the mode in force has a value other than
  /// zero.
  func readClientWrites() async throws {
    let modes = try await ClientWriteModes.read(pool)
    let recent = try await pool.query(ClientWriteRows.recent(at: clock.now())).map(
      ClientWriteRows.Recent.init)
    for stored in modes {
      let writes = recent.first { $0.table == stored.table }?.writes ?? 0
      for mode in ClientWrites.allCases {
        meters.clientWrites[stored.table, mode].set(mode == stored.mode ? writes : 0)
      }
    }
  }

  private func show(_ deliveries: [GaugeRows.Work], _ others: [GaugeRows.Work], at instant: Date) {
    typealias Place = GaugeRows.Work.Place
    // A place without rows gets zeros, so that its last value does not stay.
    var rows: [Place: [String: Int]] = [:]
    var oldest: [Place: Date] = [:]
    let destinations =
      destinations.map { Place(kind: $0.kind.rawValue, app: $0.bundleID) }
      + [Place(kind: ProfileRetryRows.destination, app: "")]
    for place in destinations { rows[place] = ["waiting": 0, "dead": 0] }
    for kind in [WorkKind.consumption, .accountToken, .renewalExtension, .oldProof] {
      for app in apps { rows[Place(kind: kind.rawValue, app: app)] = ["waiting": 0] }
    }
    rows[Place(kind: WorkKind.clientClaim.rawValue, app: "")] = ["waiting": 0]
    for work in deliveries + others {
      rows[work.place, default: [:]][work.state] = work.rows
      if work.state == "waiting" { oldest[work.place] = work.oldest }
    }
    let ofOutbox = Set(destinations + deliveries.map(\.place))
    for (place, counts) in rows {
      let age = oldest[place].map { max(0, instant.timeIntervalSince($0)) } ?? 0
      meters.workAge[place.kind, place.app].set(age)
      if ofOutbox.contains(place) { meters.outboxAge[place.kind, place.app].set(age) }
      for (state, count) in counts {
        meters.workRows[place.kind, place.app, state].set(count)
        if ofOutbox.contains(place) { meters.outboxRows[place.kind, place.app, state].set(count) }
      }
    }
  }
}

extension ClientWrites: LabelValue {}

/// The queries of ``DatabaseGauges``.
enum GaugeRows {
  /// Rows beyond this number are not counted.
  private static let limit = 10_000

  /// The rows of one kind of work and app in one state.
  struct Work {
    struct Place: Hashable {
      var kind: String
      /// Empty for work that is of no single app.
      var app: String
    }

    var place: Place
    /// `waiting`, or `dead` for a delivery that was given up.
    var state: String
    var rows: Int
    var oldest: Date

    init(_ row: Row) throws {
      place = Place(kind: try row.decode("kind"), app: try row.decode("app"))
      state = try row.decode("state")
      rows = try row.decode("rows")
      oldest = try row.decode("oldest")
    }
  }

  /// The trials of one app that ended within 30 days.
  struct Trials {
    var app: String
    var ended: Int
    var converted: Int

    init(_ row: Row) throws {
      app = try row.decode("app")
      ended = try row.decode("ended")
      converted = try row.decode("converted")
    }
  }

  /// When the subscription that has been due longest was due.
  static func oldestDue(in bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT next_change_at FROM subscriptions
    WHERE next_change_at <= \(instant) AND bundle_id = ANY(\(bundleIDs))
    ORDER BY next_change_at LIMIT 1
    """
  }

  static var waitingNotifications: Query {
    """
    SELECT count(*) AS rows FROM (
      SELECT FROM notifications WHERE processed_at IS NULL ORDER BY received_at LIMIT \(limit)) AS waiting
    """
  }

  /// The rows of the outbox that wait, and those that were given up.
  static var deliveries: Query {
    func open(_ state: Query, _ condition: Query) -> Query {
      counted(
        """
        SELECT destination AS kind, bundle_id, \(state) AS state, created_at AS since FROM outbox
        WHERE done_at IS NULL AND \(condition) ORDER BY created_at
        """)
    }
    return .union(all: [open("'waiting'", "dead_at IS NULL"), open("'dead'", "dead_at IS NOT NULL")])
  }

  /// The rows of each other queue.
  static var otherWork: Query {
    .union(
      all: ["store_calls", "renewal_extensions", "client_writes", "subscriptions"].map { queue in
        counted(
          """
          SELECT kind, bundle_id, CASE state WHEN 'dead' THEN state ELSE 'waiting' END AS state, since FROM support_work WHERE queue = '\(unescaped: queue)'
          """)
      })
  }

  private static func counted(_ rows: Query) -> Query {
    """
    SELECT kind, coalesce(bundle_id, '') AS app, state, count(*) AS rows, min(since) AS oldest
    FROM (\(rows) LIMIT \(limit)) AS open GROUP BY 1, 2, 3
    """
  }

  /// The number of trials that ended within 30 days, and of those that converted, by the rules of `kpi_daily`.
  ///
  /// Trials of the app's own, each once, however many devices continue it, and free first periods of the App Store.
  static func trials(of bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT app, count(ended.bundle_id) AS ended, count(ended.bundle_id) FILTER (WHERE ended.is_converted) AS converted
    FROM unnest(\(bundleIDs)::text[]) AS app
    LEFT JOIN (
      SELECT r.bundle_id, \(PaidTransaction.firstOfTrial) >= r.started_at AS is_converted FROM trials r
      WHERE r.continues IS NULL AND r.environment = 'Production'
        AND r.ends_at > \(instant)::timestamptz - interval '30 days' AND r.ends_at <= \(instant)
      UNION ALL
      SELECT f.bundle_id, EXISTS (
        SELECT FROM transactions t
        WHERE t.original_transaction_id = f.original_transaction_id AND t.ownership = 'PURCHASED'
          AND \(PaidTransaction.condition))
      FROM (
        SELECT t.original_transaction_id, t.bundle_id FROM transactions t
        WHERE t.expiry_date > \(instant)::timestamptz - interval '30 days' AND t.expiry_date <= \(instant)
          AND t.environment = 'Production' AND t.ownership = 'PURCHASED' AND t.kind = 'Auto-Renewable Subscription'
          AND t.transaction_id = t.original_transaction_id AND NOT (\(PaidTransaction.condition))) AS f
    ) AS ended ON ended.bundle_id = app
    GROUP BY app
    """
  }
}

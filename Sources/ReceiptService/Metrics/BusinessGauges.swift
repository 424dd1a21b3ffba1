import CoreMetrics
import Foundation
import Postgres
import PrometheusText
import Text
import Work

/// The gauges that show the business numbers: subscriptions, MRR, and the money of a day.
///
/// They read what the KPI job has counted, so a dashboard and `kpi_daily` show the same.
struct BusinessGauges: Sendable {
  let pool: PostgresPool
  let apps: [String]
  let clock: ServiceClock
  let meters: Meters

  /// The handles of the gauges.
  struct Meters: Sendable {
    fileprivate let active: HandleTable<Key, Meter>
    fileprivate let mrr: HandleTable<Key, Meter>
    fileprivate let charges: HandleTable<Key, Meter>
    fileprivate let revenue: HandleTable<Key, Meter>
    fileprivate let refunds: HandleTable<Key, Meter>

    fileprivate struct Key: Hashable {
      var app: String
      var other: String
      var day = ""
    }

    init(_ registry: PrometheusRegistry) {
      func table(_ name: String, _ label: String) -> HandleTable<Key, Meter> {
        HandleTable { key in
          Meter(
            label: name,
            dimensions: [("app", key.app), (label, key.other)] + (key.day.isEmpty ? [] : [("day", key.day)]),
            factory: registry)
        }
      }
      active = table("receiptd_active_subscribers", "plan")
      mrr = table("receiptd_mrr", "currency")
      charges = table("receiptd_charges_daily", "currency")
      revenue = table("receiptd_revenue_daily", "currency")
      refunds = table("receiptd_refunds_daily", "currency")
    }
  }

  /// Reads the gauges every minute.
  var job: BackgroundJob { BackgroundJob("business gauges", every: .seconds(60)) { try await read() } }

  /// Reads what was counted last.
  func read() async throws {
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline([
        GaugeRows.subscribers(of: apps), GaugeRows.money(of: apps, today: Day(of: clock.now())),
      ])
    }
    for row in answers[0] {
      let app = try row.decode("app", as: String.self)
      for plan in ["paying", "in_trial", "lifetime"] {
        meters.active[Meters.Key(app: app, other: plan)].set(try row.decode(plan, as: Int.self))
      }
    }
    for row in answers[1] {
      let key = Meters.Key(app: try row.decode("app"), other: try row.decode("currency"))
      meters.mrr[key].set(try row.decode("mrr", as: Double.self))
      for day in ["yesterday", "usual"] {
        let key = Meters.Key(app: key.app, other: key.other, day: day)
        meters.charges[key].set(try row.decode("charges_\(day)", as: Double.self))
        meters.revenue[key].set(try row.decode("revenue_\(day)", as: Double.self))
        meters.refunds[key].set(try row.decode("refunds_\(day)", as: Double.self))
      }
    }
  }
}

extension GaugeRows {
  /// The subscriptions of each app on the latest counted day.
  static func subscribers(of bundleIDs: [String]) -> Query {
    """
    SELECT app, coalesce(sum(paying), 0)::bigint AS paying, coalesce(sum(in_trial), 0)::bigint AS in_trial,
      coalesce(sum(lifetime), 0)::bigint AS lifetime
    FROM unnest(\(bundleIDs)::text[]) AS app
    LEFT JOIN kpi_daily_figures f ON f.bundle_id = app AND f.day = (SELECT max(day) FROM kpi_days)
    GROUP BY app
    """
  }

  /// The MRR of each app on the latest counted day, the money of yesterday, and the mean of the seven days before, by
  /// currency.
  static func money(of bundleIDs: [String], today: Day) -> Query {
    """
    SELECT bundle_id AS app, currency,
      coalesce(sum(mrr) FILTER (WHERE day = (SELECT max(day) FROM kpi_days)), 0)::float8 AS mrr,
      coalesce(sum(charges) FILTER (WHERE is_yesterday), 0)::float8 AS charges_yesterday,
      coalesce(sum(revenue) FILTER (WHERE is_yesterday), 0)::float8 AS revenue_yesterday,
      coalesce(sum(refunds) FILTER (WHERE is_yesterday), 0)::float8 AS refunds_yesterday,
      (coalesce(sum(charges) FILTER (WHERE is_before), 0) / 7)::float8 AS charges_usual,
      (coalesce(sum(revenue) FILTER (WHERE is_before), 0) / 7)::float8 AS revenue_usual,
      (coalesce(sum(refunds) FILTER (WHERE is_before), 0) / 7)::float8 AS refunds_usual
    FROM (
      SELECT m.*, m.day = today.day - 1 AS is_yesterday, m.day BETWEEN today.day - 8 AND today.day - 2 AS is_before
      FROM kpi_daily_money m, (SELECT \(today.description)::text::date AS day) AS today
      WHERE m.bundle_id = ANY(\(bundleIDs)) AND m.day >= today.day - 31) AS days
    GROUP BY bundle_id, currency
    """
  }
}

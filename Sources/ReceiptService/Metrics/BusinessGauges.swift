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

  /// The metrics of the gauges.
  struct Meters: Sendable {
    fileprivate let active: MetricFamily<Meter, String, String>
    fileprivate let mrr: MetricFamily<Meter, String, String>
    fileprivate let charges: MetricFamily<Meter, String, String, String>
    fileprivate let revenue: MetricFamily<Meter, String, String, String>
    fileprivate let refunds: MetricFamily<Meter, String, String, String>

    init(_ registry: PrometheusRegistry) {
      active = registry.gauges(
        "receiptd_active_subscribers",
        "Subscriptions and lifetime purchases in production, as kpi_daily counts them.", "app", "plan")
      mrr = registry.gauges(
        "receiptd_mrr", "Monthly recurring revenue, as kpi_revenue_daily counts it.", "app", "currency")
      charges = registry.gauges(
        "receiptd_charges_daily", "Paid purchases of yesterday, and the mean of the seven days before.",
        "app", "currency", "day")
      revenue = registry.gauges(
        "receiptd_revenue_daily", "Revenue of yesterday, and the mean of the seven days before.", "app",
        "currency", "day")
      refunds = registry.gauges(
        "receiptd_refunds_daily", "Refunds of yesterday, and the mean of the seven days before.", "app",
        "currency", "day")
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
        meters.active[app, plan].set(try row.decode(plan, as: Int.self))
      }
    }
    for row in answers[1] {
      let (app, currency): (String, String) = (try row.decode("app"), try row.decode("currency"))
      meters.mrr[app, currency].set(try row.decode("mrr", as: Double.self))
      for day in ["yesterday", "usual"] {
        meters.charges[app, currency, day].set(try row.decode("charges_\(day)", as: Double.self))
        meters.revenue[app, currency, day].set(try row.decode("revenue_\(day)", as: Double.self))
        meters.refunds[app, currency, day].set(try row.decode("refunds_\(day)", as: Double.self))
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

import Postgres
import Text

/// The charts of the business, each from one statement.
package enum FigureChart: String, Sendable, CaseIterable {
  case mrr
  case movement = "mrr-movement"
  case revenue
  case subscribers
  case churn
  case trials
  case paywall
  case retention
  case cancellations
  case ends
  case refunds
  case lifetimeValue = "ltv"

  /// The columns that define the figures.
  package var definitions: [FigureColumn] {
    switch self {
    case .mrr: [.init("kpi_revenue_daily", "mrr")]
    case .movement:
      ["mrr_new", "mrr_expansion", "mrr_moved", "mrr_contraction", "mrr_churn"].map {
        .init("kpi_revenue_daily", $0)
      }
    case .revenue: ["revenue", "refunds", "net"].map { .init("kpi_revenue_daily", $0) }
    case .subscribers: ["paying", "in_trial", "lifetime", "non_renewing"].map { .init("kpi_daily", $0) }
    case .churn: ["churn", "lost", "paying_start"].map { .init("kpi_daily", $0) }
    case .trials:
      ["started", "converted", "lapsed", "pending", "conversion"].map { .init("kpi_trial_cohorts", $0) }
    case .paywall: ["paywall_shown", "purchase_initiated", "new"].map { .init("kpi_daily", $0) }
    case .retention:
      ["cohort", "months", "customers", "retained", "retention"].map { .init("kpi_cohorts", $0) }
    case .cancellations: [.init("kpi_daily", "cancelled"), .init("kpi_losses_daily", "reason")]
    case .ends: [.init("kpi_daily", "expired"), .init("kpi_losses_daily", "reason")]
    case .refunds: [.init("kpi_daily", "refunded"), .init("kpi_losses_daily", "reason")]
    case .lifetimeValue:
      [
        .init("kpi_lifetime_value", "customers"), .init("kpi_lifetime_value", "net"),
        .init("kpi_lifetime_value", "ltv"), .init("kpi_acquisition", "cost"), .init("kpi_acquisition", "cac"),
      ]
    }
  }

  /// Whether the figures are amounts, of one currency.
  package var isMoney: Bool {
    switch self {
    case .mrr, .movement, .revenue, .lifetimeValue: true
    default: false
    }
  }

  /// Whether the chart divides its figures by app, tier or product.
  package var hasBreakdown: Bool { self == .mrr || self == .churn }

  /// Whether its rows are months whatever the period is.
  package var isByMonth: Bool {
    switch self {
    case .churn, .trials, .paywall, .retention, .lifetimeValue: true
    default: false
    }
  }

  /// The most series of a chart; further ones are added up as `(other)`.
  private static let maximumSeries = 7

  /// The statement. No statement reads days outside of the calendar's, and each has a limit of rows.
  func query(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    switch self {
    case .mrr: Self.mrr(scope, calendar)
    case .movement: Self.movement(scope, calendar)
    case .revenue: Self.revenue(scope, calendar)
    case .subscribers: Self.subscribers(scope, calendar)
    case .churn: Self.churn(scope, calendar)
    case .trials: Self.trials(scope, calendar)
    case .paywall: Self.paywall(scope, calendar)
    case .retention: Self.retention(scope, calendar)
    case .cancellations: Self.losses("cancelled", scope, calendar)
    case .ends: Self.losses("expired", scope, calendar)
    case .refunds: Self.losses("refunded", scope, calendar)
    case .lifetimeValue: Self.lifetimeValue(scope, calendar)
    }
  }

  /// The table of the statement's rows.
  func table(_ rows: Rows, _ calendar: FigureCalendar) throws -> FigureTable {
    let flows = calendar.flows.map(\.start)
    var table: FigureTable
    switch self {
    case .mrr:
      table = try FigureTable(
        pivoting: rows, first: "day", kind: .money, places: calendar.states.map(\.last), missing: "0")
      table.isLastPartial = !calendar.isLastDayOver
    case .subscribers:
      table = try FigureTable(
        rows, places: calendar.states.map(\.last),
        columns: [
          ("day", .date), ("paying", .count), ("in_trial", .count), ("lifetime", .count),
          ("non_renewing", .count),
        ])
      table.isLastPartial = !calendar.isLastDayOver
    case .movement:
      table = try FigureTable(
        rows, places: flows,
        columns: [
          ("from", .date), ("new", .money), ("expansion", .money), ("moved", .money), ("contraction", .money),
          ("churn", .money), ("net", .money),
        ])
      table.isLastPartial = calendar.isLastFlowPartial
    case .revenue:
      table = try FigureTable(
        rows, places: flows,
        columns: [("from", .date), ("revenue", .money), ("refunds", .money), ("net", .money)])
      table.isLastPartial = calendar.isLastFlowPartial
    case .cancellations, .ends, .refunds:
      table = try FigureTable(pivoting: rows, first: "from", kind: .count, places: flows, missing: "0")
      table.isLastPartial = calendar.isLastFlowPartial
    case .churn:
      table = try FigureTable(
        pivoting: rows, first: "month", kind: .ratio, places: calendar.months.map(\.start), missing: nil)
      table.isLastPartial = calendar.isLastMonthPartial
    case .trials:
      table = try FigureTable(
        rows,
        columns: [
          ("month", .date), ("started", .count), ("converted", .count), ("lapsed", .count),
          ("pending", .count), ("conversion", .ratio),
        ])
    case .paywall:
      table = try FigureTable(
        rows,
        columns: [
          ("month", .date), ("paywall_shown", .count), ("purchase_initiated", .count), ("new", .count),
        ])
    case .retention:
      table = try FigureTable(
        rows,
        columns: [
          ("cohort", .date), ("months", .count), ("customers", .count), ("retained", .count),
          ("lost", .count), ("pending", .count), ("retention", .ratio),
        ])
    case .lifetimeValue:
      table = try FigureTable(
        rows,
        columns: [
          ("cohort", .date), ("customers", .count), ("revenue", .money), ("refunds", .money), ("net", .money),
          ("ltv", .money), ("cost", .money), ("cac", .money),
        ])
    }
    return table
  }
}

/// The statements.
extension FigureChart {
  /// SQL: a day or month between two days.
  private static func within(_ first: Day, _ last: Day) -> Query {
    "BETWEEN \(first.description)::text::date AND \(last.description)::text::date"
  }

  private static func months(_ calendar: FigureCalendar) -> Query {
    within(firstMonth(calendar), calendar.lastDay)
  }

  private static func firstMonth(_ calendar: FigureCalendar) -> Day {
    calendar.months.first.flatMap { Day($0.start) } ?? calendar.firstDay
  }

  /// SQL: the rows `place`, `name`, `rank`, `value` of grouped rows `place`, `name`, `above`, `below`: the most
  /// frequent names, and `(other)`.
  private static func named(_ grouped: Query, value: StaticString) -> Query {
    """
    WITH grouped AS MATERIALIZED (\(grouped)),
    ranked AS (
      SELECT name, row_number() OVER (ORDER BY sum(weight) DESC, name) AS rank FROM grouped GROUP BY name
    )
    SELECT place::text AS place, CASE WHEN rank <= \(maximumSeries) THEN name ELSE '(other)' END AS name,
      min(rank) AS rank, (\(unescaped: value))::text AS value
    FROM grouped JOIN ranked USING (name) GROUP BY 1, 2 ORDER BY 1, 3 LIMIT 8000
    """
  }

  private static func mrr(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    named(
      """
      SELECT day AS place, \(unescaped: scope.breakdown.expression) AS name, sum(mrr) AS amount, sum(mrr) AS weight
      FROM kpi_revenue_daily
      WHERE day IN (SELECT unnest(\(calendar.states.map(\.last))::text[])::date) AND currency = \(scope.currency)
        AND \(scope.condition)
      GROUP BY 1, 2
      """, value: "sum(amount)")
  }

  private static func movement(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT date_trunc(\(scope.period.grain.rawValue)::text, day::timestamp)::date::text AS from,
      sum(mrr_new)::text AS new, sum(mrr_expansion)::text AS expansion, sum(mrr_moved)::text AS moved,
      (-sum(mrr_contraction))::text AS contraction, (-sum(mrr_churn))::text AS churn,
      sum(mrr_new + mrr_expansion + mrr_moved - mrr_contraction - mrr_churn)::text AS net
    FROM kpi_revenue_daily
    WHERE day \(within(calendar.firstDay, calendar.lastDay)) AND currency = \(scope.currency) AND \(scope.condition)
    GROUP BY 1 ORDER BY 1 LIMIT 800
    """
  }

  private static func revenue(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT date_trunc(\(scope.period.grain.rawValue)::text, day::timestamp)::date::text AS from,
      sum(revenue)::text AS revenue, (-sum(refunds))::text AS refunds, sum(net)::text AS net
    FROM kpi_revenue_daily
    WHERE day \(within(calendar.firstDay, calendar.lastDay)) AND currency = \(scope.currency) AND \(scope.condition)
    GROUP BY 1 ORDER BY 1 LIMIT 800
    """
  }

  private static func subscribers(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT day::text AS day, sum(paying)::text AS paying, sum(in_trial)::text AS in_trial,
      sum(lifetime)::text AS lifetime, sum(non_renewing)::text AS non_renewing
    FROM kpi_daily
    WHERE day IN (SELECT unnest(\(calendar.states.map(\.last))::text[])::date) AND \(scope.condition)
    GROUP BY 1 ORDER BY 1 LIMIT 800
    """
  }

  private static func churn(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    named(
      """
      SELECT date_trunc('month', day::timestamp)::date AS place, \(unescaped: scope.breakdown.expression) AS name,
        sum(lost) AS lost, sum(paying_start) FILTER (WHERE extract(day FROM day) = 1) AS paying_start,
        sum(paying_start) AS weight
      FROM kpi_daily
      WHERE day \(months(calendar)) AND \(scope.condition)
      GROUP BY 1, 2 HAVING sum(paying_start) > 0
      """, value: "round(sum(lost) / nullif(sum(paying_start), 0), 4)")
  }

  private static func trials(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT cohort::text AS month, coalesce(sum(started), 0)::text AS started,
      coalesce(sum(converted), 0)::text AS converted, coalesce(sum(lapsed), 0)::text AS lapsed,
      coalesce(sum(pending), 0)::text AS pending,
      round(sum(converted) / nullif(sum(converted + lapsed), 0), 4)::text AS conversion
    FROM kpi_trial_cohorts
    WHERE cohort \(months(calendar)) AND \(scope.condition)
    GROUP BY GROUPING SETS ((cohort), ()) ORDER BY cohort NULLS LAST LIMIT 800
    """
  }

  private static func paywall(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT month::text AS month, coalesce(sum(paywall_shown), 0)::text AS paywall_shown,
      coalesce(sum(purchase_initiated), 0)::text AS purchase_initiated, coalesce(sum(new), 0)::text AS new
    FROM (
      SELECT date_trunc('month', day::timestamp)::date AS month, paywall_shown, purchase_initiated, new
      FROM kpi_daily WHERE day \(months(calendar)) AND \(scope.appCondition)
    ) AS days
    GROUP BY GROUPING SETS ((month), ()) ORDER BY month NULLS LAST LIMIT 800
    """
  }

  /// `kpi_cohorts` for the chosen months alone, as it was on the calendar's last day: the view adds up all days before it
  /// looks at the month.
  private static func retention(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    WITH counted AS MATERIALIZED (
      SELECT (date_trunc('month', day::timestamp) - months * interval '1 month')::date AS cohort, months,
        sum(customers) AS customers, sum(retained) AS retained
      FROM kpi_daily_cohorts
      WHERE day \(months(calendar)) AND \(scope.condition)
      GROUP BY 1, 2
    )
    SELECT started.cohort::text AS cohort, age.months::text AS months, started.customers::text AS customers,
      coalesce(reached.retained, 0)::text AS retained,
      coalesce(reached.customers - reached.retained, 0)::text AS lost,
      (started.customers - coalesce(reached.customers, 0))::text AS pending,
      round(reached.retained / nullif(reached.customers, 0), 4)::text AS retention
    FROM counted AS started
    CROSS JOIN generate_series(1, 12) AS age (months)
    LEFT JOIN counted AS reached ON reached.cohort = started.cohort AND reached.months = age.months
    WHERE started.months = 0 AND started.customers > 0 AND started.cohort \(months(calendar))
    ORDER BY started.cohort, age.months LIMIT 800
    """
  }

  private static func losses(
    _ loss: String, _ scope: FigureScope, _ calendar: FigureCalendar
  ) -> Query {
    named(
      """
      SELECT date_trunc(\(scope.period.grain.rawValue)::text, day::timestamp)::date AS place, reason AS name,
        sum(subscriptions) AS amount, sum(subscriptions) AS weight
      FROM kpi_losses_daily
      WHERE day \(within(calendar.firstDay, calendar.lastDay)) AND loss = \(loss) AND \(scope.condition)
      GROUP BY 1, 2
      """, value: "sum(amount)")
  }

  private static func lifetimeValue(_ scope: FigureScope, _ calendar: FigureCalendar) -> Query {
    """
    SELECT cohort::text AS cohort, sum(customers)::text AS customers, sum(revenue)::text AS revenue,
      sum(refunds)::text AS refunds, sum(net)::text AS net,
      round(sum(net) / nullif(sum(customers), 0), receiptd_currency_digits(\(scope.currency)))::text AS ltv,
      max(spent.cost)::text AS cost, max(spent.cac)::text AS cac
    FROM kpi_lifetime_value
    LEFT JOIN (
      SELECT cohort AS month, sum(cost) AS cost,
        round(sum(cost) / nullif(sum(customers), 0), receiptd_currency_digits(\(scope.currency))) AS cac
      FROM kpi_acquisition
      WHERE cohort \(months(calendar)) AND currency = \(scope.currency) AND \(scope.appCondition)
        AND \(scope.tier)::text IS NULL AND \(scope.productID)::text IS NULL
      GROUP BY 1
    ) AS spent ON spent.month = cohort
    WHERE cohort \(months(calendar)) AND currency = \(scope.currency) AND \(scope.condition)
    GROUP BY kpi_lifetime_value.cohort ORDER BY kpi_lifetime_value.cohort LIMIT 800
    """
  }
}

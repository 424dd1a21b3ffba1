import Postgres

/// A view of figures that the support API returns to people with the role `numbers`.
enum NumbersView: String, CaseIterable, Sendable {
  case daily = "kpi_daily"
  case revenue = "kpi_revenue_daily"
  case cohorts = "kpi_cohorts"
  case trialCohorts = "kpi_trial_cohorts"
  case lifetimeValue = "kpi_lifetime_value"
  case priceChanges = "kpi_price_changes"

  /// The column of the day or of the month's first day.
  private var dateColumn: String {
    switch self {
    case .daily, .revenue, .priceChanges: "day"
    case .cohorts, .trialCohorts, .lifetimeValue: "cohort"
    }
  }

  /// SQL: a row as JSON, with times as in all other responses.
  private var row: String {
    guard self == .daily else { return "to_jsonb(figures)" }
    return #"""
      to_jsonb(figures) || jsonb_build_object(
        'as_of', to_char(figures.as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      """#
  }

  /// One row with the column `rows`: a JSON list of the view's rows, in the order of their dates.
  /// - Parameter bundleID: the only app; `nil` for all apps.
  func select(from first: Day, through last: Day, bundleID: String?) -> Query {
    """
    SELECT coalesce(jsonb_agg(\(unescaped: row) ORDER BY \(unescaped: dateColumn)), '[]')::text AS rows
    FROM \(unescaped: rawValue) AS figures
    WHERE \(unescaped: dateColumn) BETWEEN \(first.description)::text::date AND \(last.description)::text::date
      AND (\(bundleID)::text IS NULL OR bundle_id = \(bundleID)::text)
    """
  }
}

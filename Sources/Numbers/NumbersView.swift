import Postgres
import Text

/// A relation of figures that the support API returns to people with the role `numbers`.
enum NumbersView: String, CaseIterable, Sendable {
  case daily = "kpi_daily"
  case revenue = "kpi_revenue_daily"
  case losses = "kpi_losses_daily"
  case cohorts = "kpi_cohorts"
  case trialCohorts = "kpi_trial_cohorts"
  case lifetimeValue = "kpi_lifetime_value"
  case acquisition = "kpi_acquisition"
  case priceChanges = "kpi_price_changes"

  /// The column of the day or of the month's first day.
  private var dateColumn: String {
    switch self {
    case .daily, .revenue, .losses, .priceChanges: "day"
    case .cohorts, .trialCohorts, .lifetimeValue, .acquisition: "cohort"
    }
  }

  /// SQL: a row as JSON, with times as in all other responses, and with null for a value that does not exist.
  private var row: String {
    switch self {
    case .daily:
      #"""
      to_jsonb(figures) || jsonb_build_object(
        'as_of', to_char(figures.as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      """#
    case .losses:
      """
      to_jsonb(figures) || jsonb_build_object('tier', nullif(figures.tier, ''),
        'product_id', nullif(figures.product_id, ''), 'country', nullif(figures.country, ''))
      """
    case .revenue, .cohorts, .trialCohorts, .lifetimeValue, .acquisition, .priceChanges: "to_jsonb(figures)"
    }
  }

  /// SQL: the rows as JSON (`row`) with their date (`date`).
  private func figures(from first: Day, through last: Day, bundleID: String?) -> Query {
    """
    SELECT \(unescaped: row) AS row, \(unescaped: dateColumn) AS date
    FROM \(unescaped: rawValue) AS figures
    WHERE \(unescaped: dateColumn) BETWEEN \(first.description)::text::date AND \(last.description)::text::date
      AND (\(bundleID)::text IS NULL OR bundle_id = \(bundleID)::text)
    """
  }

  /// One row with the column `rows`: a JSON list of the view's rows, in the order of their dates.
  /// - Parameter bundleID: the only app; `nil` for all apps.
  func select(from first: Day, through last: Day, bundleID: String?) -> Query {
    """
    SELECT coalesce(jsonb_agg(row ORDER BY date), '[]')::text AS rows
    FROM (\(figures(from: first, through: last, bundleID: bundleID))) AS figures
    """
  }

  /// Rows with the column `cells`, a list of texts: first the names of the view's columns, in its order, then each row.
  ///
  /// A column with one amount for each currency becomes a column for each currency of these rows, such as `mrr_USD`.
  func selectCells(from first: Day, through last: Day, bundleID: String?) -> Query {
    """
    WITH figures AS MATERIALIZED (\(figures(from: first, through: last, bundleID: bundleID))),
    columns AS MATERIALIZED (
      SELECT c.attname::text AS name, amounts.currency, row_number() OVER (ORDER BY c.attnum, amounts.currency) AS place
      FROM pg_attribute c
      LEFT JOIN LATERAL (
        SELECT DISTINCT jsonb_object_keys(figures.row -> c.attname::text) AS currency FROM figures
        WHERE c.atttypid = 'jsonb'::regtype
      ) AS amounts ON true
      WHERE c.attrelid = \(rawValue)::text::regclass AND c.attnum > 0 AND NOT c.attisdropped
        AND (c.atttypid <> 'jsonb'::regtype OR amounts.currency IS NOT NULL)
    )
    SELECT cells FROM (
      SELECT 0 AS part, NULL::date AS date, NULL::jsonb AS row,
        array_agg(concat_ws('_', name, currency) ORDER BY place) AS cells
      FROM columns
      UNION ALL
      SELECT 1, figures.date, figures.row, (
        SELECT array_agg(CASE WHEN currency IS NULL THEN figures.row ->> name
          ELSE figures.row -> name ->> currency END ORDER BY place)
        FROM columns)
      FROM figures
    ) AS lines
    ORDER BY part, date, row ->> 'bundle_id', row ->> 'tier', row ->> 'product_id', row ->> 'currency', row
    """
  }

  /// One row: whether a server has, or had, an app in its configuration (`is_known`).
  static func isKnown(_ bundleID: String) -> Query {
    "SELECT EXISTS (SELECT FROM configured_apps WHERE bundle_id = \(bundleID)) AS is_known"
  }
}

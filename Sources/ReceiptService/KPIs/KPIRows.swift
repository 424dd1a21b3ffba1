import Foundation
import Postgres

/// The queries on the tables that have the figures of a day. The comments of their columns and of the views, such as
/// `kpi_daily`, explain each number.
///
/// The queries read only facts that do not change with time (transactions, notifications, trials). So counting a day again
/// gives the same numbers, except for facts that arrived later.
enum KPIRows {
  private static let tables: [StaticString] = [
    "kpi_daily_figures", "kpi_daily_money", "kpi_daily_cohorts", "kpi_daily_trials", "kpi_daily_value",
    "kpi_daily_prices", "kpi_losses_daily",
  ]

  /// Deletes what was counted of a day.
  static func delete(_ day: Day) -> [Query] {
    tables.map { "DELETE FROM \(unescaped: $0) WHERE day = \(day.description)::text::date" }
  }

  /// Counts a day as of an instant in it, or as of its end. It is one statement, so that all numbers have one snapshot.
  static func count(_ day: Day, asOf: Date, _ prices: PriceList) -> Query {
    """
    \(purchases(day, asOf: asOf, prices))
    \(trials(day, asOf: asOf))
    \(losses(day, asOf: asOf))
    \(money(day))
    \(figures(day, asOf: asOf))
    """
  }
}

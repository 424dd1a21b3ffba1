import FoundationEssentials
import Postgres

/// The table `kpi_days`, and which day is to be counted next.
enum DayRows {
  /// The App Store retries a notification for six and a half days.
  static let daysCountedAgain = 7
  /// How old the running day's figures become.
  static let interval: TimeInterval = 300
  /// What arrives just after midnight often belongs before it.
  static let pauseAfterMidnight: TimeInterval = 600
  /// No purchase is older than the App Store; a date that is tells of no business.
  private static let firstDay = "2008-07-10"

  /// Notes that a day was counted.
  static func note(_ day: Day, asOf: Date, at instant: Date) -> Query {
    """
    INSERT INTO kpi_days (day, as_of, computed_at)
    VALUES (\(day.description)::text::date, \(asOf), \(instant))
    ON CONFLICT (day) DO UPDATE SET as_of = excluded.as_of, computed_at = excluded.computed_at
    """
  }

  /// The latest day that is to be counted: the running one every few minutes, the last seven once after each midnight,
  /// and each that never was, back to the first purchase. What a clock that was wrong wrote down does not count.
  static func due(at instant: Date) -> Query {
    let today = Day(of: instant)
    let settled = today.start + pauseAfterMidnight
    return """
      WITH facts AS (
        SELECT least(
          (SELECT min(purchase_date) FROM transactions WHERE environment = 'Production'),
          (SELECT min(started_at) FROM trials), (SELECT min(at) FROM events)) AS first
      )
      SELECT to_char(days.day, 'YYYY-MM-DD')
      FROM facts CROSS JOIN LATERAL generate_series(
        greatest((facts.first AT TIME ZONE 'UTC')::date, \(unescaped: "'\(firstDay)'::date"))::timestamp,
        \(today.description)::text::timestamp, interval '1 day') AS days (day)
      LEFT JOIN kpi_days k ON k.day = days.day::date
      WHERE k.day IS NULL
        OR k.computed_at > \(instant + ReconcileRows.clockTolerance)
        OR CASE
          WHEN days.day = \(today.description)::text::timestamp THEN k.computed_at <= \(instant - interval)
          WHEN days.day >= \(today.advanced(by: -daysCountedAgain).description)::text::timestamp
            THEN k.computed_at < \(settled) AND \(instant >= settled)
          ELSE k.as_of < (days.day + interval '1 day') AT TIME ZONE 'UTC'
        END
      ORDER BY days.day DESC LIMIT 1
      """
  }
}

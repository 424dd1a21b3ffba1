import Foundation
import Postgres

import enum HTTP.RFC3339

/// A day in UTC.
package struct Day: Sendable, Hashable, Comparable, CustomStringConvertible {
  private static let length: TimeInterval = 86_400

  /// The first instant of the day.
  package let start: Date

  /// The day that an instant lies in.
  package init(of instant: Date) {
    let days = (instant.timeIntervalSince1970 / Self.length).rounded(.down)
    start = Date(timeIntervalSince1970: days * Self.length)
  }

  /// The day that a text such as `2026-11-20` names, or `nil`.
  package init?(_ text: String) {
    guard let start = RFC3339.date(from: text + "T00:00:00Z") else { return nil }
    self.start = start
  }

  /// The first instant of the next day.
  package var end: Date { start + Self.length }

  /// The day this number of days later, or earlier for a negative number.
  package func advanced(by days: Int) -> Day { Day(of: start + TimeInterval(days) * Self.length) }

  /// Whether the left one is earlier.
  package static func < (left: Day, right: Day) -> Bool { left.start < right.start }

  /// As `2026-11-20`.
  package var description: String { String(RFC3339.string(from: start).prefix(10)) }
}

/// The queries on `kpi_days`, which has the days that were counted.
enum DayRows {
  /// The App Store retries a notification for six and a half days.
  static let daysCountedAgain = 7
  /// The age at which the current day is counted again, in seconds.
  static let interval: TimeInterval = 300
  /// Late notifications arrive just after midnight, so counting waits this many seconds.
  static let pauseAfterMidnight: TimeInterval = 600
  /// The age at which a day with late facts is counted again, in seconds.
  static let staleInterval: TimeInterval = 3_600
  /// The day on which the App Store opened. Earlier dates are wrong.
  static let firstDay = "2008-07-10"

  /// Records that a day was counted.
  static func record(_ day: Day, asOf: Date, at instant: Date) -> Query {
    """
    INSERT INTO kpi_days (day, as_of, computed_at)
    VALUES (\(day.description)::text::date, \(asOf), \(instant))
    ON CONFLICT (day) DO UPDATE SET
      as_of = excluded.as_of, computed_at = excluded.computed_at, is_stale = false
    """
  }

  /// Takes the late facts and marks their counted days. Days whose transactions retention may have deleted stay as they are.
  static var takeLateFacts: Query {
    """
    WITH late AS (DELETE FROM kpi_late_facts RETURNING first_day, last_day)
    UPDATE kpi_days SET is_stale = true
    WHERE NOT is_stale AND EXISTS (SELECT FROM late WHERE kpi_days.day BETWEEN first_day AND last_day)
      AND day >= coalesce((
        SELECT (forgotten_before AT TIME ZONE 'UTC')::date FROM retention_positions
        WHERE relation = 'transactions'), '-infinity')
    """
  }

  /// The day to count next.
  ///
  /// The current day is due every few minutes, the last seven days once after each midnight, a day with late facts once an
  /// hour, and every day since the first purchase that was never counted. A time of counting that lies in the future was
  /// written by a wrong clock and is ignored.
  static func due(at instant: Date) -> Query {
    let today = Day(of: instant)
    let settled = today.start + pauseAfterMidnight
    return """
      WITH facts AS (
        SELECT least(
          (SELECT min(purchase_date) FROM transactions WHERE environment = 'Production'),
          (SELECT min(started_at) FROM trials), (SELECT min(at) FROM events)) AS first
      )
      SELECT to_char(days.day, 'YYYY-MM-DD') AS day
      FROM facts CROSS JOIN LATERAL generate_series(
        greatest((facts.first AT TIME ZONE 'UTC')::date, \(unescaped: "'\(firstDay)'::date"))::timestamp,
        \(today.description)::text::timestamp, interval '1 day') AS days (day)
      LEFT JOIN kpi_days k ON k.day = days.day::date
      WHERE k.day IS NULL
        OR k.computed_at > \(instant + ReconcileRows.clockTolerance)
        OR k.is_stale AND k.computed_at <= \(instant - staleInterval)
        OR CASE
          WHEN days.day = \(today.description)::text::timestamp THEN k.computed_at <= \(instant - interval)
          WHEN days.day >= \(today.advanced(by: -daysCountedAgain).description)::text::timestamp
            THEN k.computed_at < \(settled) AND \(instant >= settled)
          ELSE k.as_of < (days.day + interval '1 day') AT TIME ZONE 'UTC'
        END
      -- The latest days first, then days that were never counted, then the one whose count is the oldest.
      ORDER BY days.day < \(today.advanced(by: -daysCountedAgain).description)::text::timestamp,
        CASE WHEN days.day < \(today.advanced(by: -daysCountedAgain).description)::text::timestamp
          THEN k.computed_at END NULLS FIRST, days.day DESC
      LIMIT 1
      """
  }
}

import Postgres
import Text

/// The counted days that figures are shown for.
package struct FigureCalendar: Sendable {
  /// A part of the period: a day, a week or a month.
  struct Place: Sendable, Hashable {
    /// The first day of the part, as `2026-11-01`, which the period may cut off.
    var start: String
    /// The last counted day of the part.
    var last: String
  }

  /// The last counted day.
  package let lastDay: Day
  /// The instant up to which that day was counted, as `2026-11-27T10:05:00Z`.
  package let asOf: String
  /// Whether that day is over.
  package let isLastDayOver: Bool
  /// The first day of the period.
  package let firstDay: Day
  /// The parts of the period for sums.
  let flows: [Place]
  /// The parts of the period for figures at the end of a day.
  let states: [Place]
  /// The months of figures by month.
  let months: [Place]

  /// Whether the last sum will change.
  package var isLastFlowPartial: Bool { isPartial(flows.last, period.grain) }
  package var isLastMonthPartial: Bool { isPartial(months.last, .month) }

  private let period: FigurePeriod

  private func isPartial(_ place: Place?, _ grain: FigureGrain) -> Bool {
    guard let place, let start = Day(place.start) else { return false }
    guard isLastDayOver else { return true }
    let end =
      switch grain {
      case .day: start
      case .week: start.advanced(by: 6)
      case .month: FigureMonth(of: start).lastDay
      }
    return lastDay < end
  }

  /// One row: the last counted day (`day`) up to a day, its `as_of`, and whether it `is_over`; no row if none was
  /// counted.
  static func last(upTo day: Day) -> Query {
    """
    SELECT day::text AS day, to_char(as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS as_of,
      as_of >= (day + 1)::timestamp AT TIME ZONE 'UTC' AS is_over
    FROM kpi_days WHERE day <= \(day.description)::text::date ORDER BY day DESC LIMIT 1
    """
  }

  /// One row for each counted part of a period: its first day (`start`) and its last counted one (`last`).
  private static func places(_ grain: FigureGrain, from first: Day, through last: Day) -> Query {
    """
    SELECT date_trunc(\(grain.rawValue)::text, day::timestamp)::date::text AS start, max(day)::text AS last
    FROM kpi_days
    WHERE day BETWEEN \(first.description)::text::date AND \(last.description)::text::date
    GROUP BY 1 ORDER BY 1 LIMIT 800
    """
  }

  /// The calendar of a period up to a day; `nil` if no day up to it was counted.
  static func read(
    _ period: FigurePeriod, upTo day: Day, in pool: PostgresPool
  ) async throws -> FigureCalendar? {
    guard let row = try await pool.query(last(upTo: day)).first,
      let lastDay = Day(try row.decode("day", as: String.self))
    else { return nil }
    let firstDay = period.firstDay(to: lastDay)
    let months = period.firstMonth(to: lastDay).firstDay
    let answers = try await pool.transaction(pipeline: [
      places(period.grain, from: firstDay, through: lastDay),
      places(period.stateGrain, from: firstDay, through: lastDay),
      places(.month, from: months, through: lastDay),
    ])
    let found = try answers.map { rows in
      try rows.map { Place(start: try $0.decode("start"), last: try $0.decode("last")) }
    }
    // Ends of months stand between those of weeks.
    let ends = Dictionary(
      (found[1] + (period.stateGrain == .week ? found[2] : [])).map { ($0.last, $0) },
      uniquingKeysWith: { first, _ in first })
    return FigureCalendar(
      lastDay: lastDay, asOf: try row.decode("as_of"), isLastDayOver: try row.decode("is_over"),
      firstDay: firstDay, flows: found[0], states: ends.values.sorted { $0.last < $1.last }, months: found[2],
      period: period)
  }
}

import Postgres
import Text

/// A figure by month, for a card and for the report of a month.
package enum MonthFigure: String, Sendable, CaseIterable {
  case mrr, arr, paying
  case inTrial = "in_trial"
  case new, revenue, refunds, net, churn
  case trialConversion = "trial_conversion"
  case lost, lifetime, renewed, cancelled
  case mrrStart = "mrr_start"
  case mrrNew = "mrr_new"
  case mrrExpansion = "mrr_expansion"
  case mrrMoved = "mrr_moved"
  case mrrContraction = "mrr_contraction"
  case mrrChurn = "mrr_churn"

  /// The figures that have a card.
  package static let cards: [MonthFigure] = [
    .mrr, .arr, .paying, .inTrial, .new, .revenue, .refunds, .churn, .trialConversion,
  ]

  /// Whether it is a figure at the end of a day, and not of several days.
  package var isState: Bool {
    switch self {
    case .mrr, .arr, .paying, .inTrial, .lifetime: true
    default: false
    }
  }

  package var kind: FigureTable.Kind {
    switch self {
    case .paying, .inTrial, .new, .lost, .lifetime, .renewed, .cancelled: .count
    case .churn, .trialConversion: .ratio
    case .mrr, .arr, .revenue, .refunds, .net, .mrrStart, .mrrNew, .mrrExpansion, .mrrMoved, .mrrContraction,
      .mrrChurn:
      .money
    }
  }

  /// The columns that define it.
  package var definitions: [FigureColumn] {
    switch self {
    case .arr: [.init("kpi_revenue_daily", "mrr")]
    case .churn: ["churn", "lost", "paying_start"].map { .init("kpi_daily", $0) }
    case .trialConversion: ["converted", "lapsed"].map { .init("kpi_daily_trials", $0) }
    case .paying, .inTrial, .new, .lost, .lifetime, .renewed, .cancelled: [.init("kpi_daily", rawValue)]
    case .mrr, .revenue, .refunds, .net, .mrrStart, .mrrNew, .mrrExpansion, .mrrMoved, .mrrContraction,
      .mrrChurn:
      [.init("kpi_revenue_daily", rawValue)]
    }
  }

  /// The statement that has it.
  fileprivate var source: Source {
    switch self {
    case .trialConversion: .trials
    case .paying, .inTrial, .new, .lost, .lifetime, .renewed, .cancelled, .churn: .counts
    default: .money
    }
  }

  fileprivate enum Source: CaseIterable { case money, counts, trials }

  /// SQL: its value over the rows of a month that satisfy a condition.
  /// - Parameters:
  ///   - days: whether a row's day belongs to the value.
  ///   - end: whether a row's day is the last of these days.
  ///   - start: whether a row's day is the first of the month.
  private func expression(days: String, end: String, start: String) -> String {
    switch self {
    case .mrr: "coalesce(sum(mrr) FILTER (WHERE \(end)), 0)"
    case .arr: "12 * coalesce(sum(mrr) FILTER (WHERE \(end)), 0)"
    case .paying, .inTrial, .lifetime: "coalesce(sum(\(rawValue)) FILTER (WHERE \(end)), 0)"
    case .mrrStart: "coalesce(sum(mrr_start) FILTER (WHERE \(start)), 0)"
    case .churn:
      "round(sum(lost) FILTER (WHERE \(days)) / nullif(sum(paying_start) FILTER (WHERE \(start)), 0), 4)"
    case .trialConversion:
      """
      round(sum(converted) FILTER (WHERE \(days)) / nullif(sum(converted + lapsed) FILTER (WHERE \(days)), 0), 4)
      """
    case .new, .revenue, .refunds, .net, .lost, .renewed, .cancelled, .mrrNew, .mrrExpansion, .mrrMoved,
      .mrrContraction, .mrrChurn:
      "coalesce(sum(\(rawValue)) FILTER (WHERE \(days)), 0)"
    }
  }

  /// One row for each month with all figures of a source: of the days up to the last counted one, and under `same_…` of
  /// the days up to the same day of the month as the calendar's last one.
  fileprivate static func months(
    _ source: Source, _ scope: FigureScope, _ calendar: FigureCalendar
  ) -> Query {
    let figures = allCases.filter { $0.source == source }
    let wholes = figures.map { figure in
      "(\(figure.expression(days: "true", end: "is_end", start: "is_start")))::text AS \(figure.rawValue)"
    }
    let sames = figures.map { figure in
      "(\(figure.expression(days: "is_same", end: "is_same_end", start: "is_start")))::text AS same_\(figure.rawValue)"
    }
    let relation: StaticString
    let currency: Query
    switch source {
    case .money: (relation, currency) = ("kpi_revenue_daily", "currency = \(scope.currency)")
    case .counts: (relation, currency) = ("kpi_daily", "true")
    case .trials: (relation, currency) = ("kpi_daily_trials", "true")
    }
    let first = calendar.months.first?.start ?? calendar.firstDay.description
    return """
      SELECT date_trunc('month', day::timestamp)::date::text AS month, \(unescaped: (wholes + sames).joined(separator: ", "))
      FROM (
        SELECT rows.*, day IN (SELECT unnest(\(calendar.months.map(\.last))::text[])::date) AS is_end,
          day IN (SELECT unnest(\(MonthFigures.sameDays(calendar))::text[])::date) AS is_same_end,
          extract(day FROM day) = 1 AS is_start,
          extract(day FROM day) <= \(MonthFigures.dayOfMonth(calendar.lastDay))::integer AS is_same
        FROM \(unescaped: relation) AS rows
        WHERE day BETWEEN \(first)::text::date AND \(calendar.lastDay.description)::text::date
          AND \(currency) AND \(scope.condition)
      ) AS days
      GROUP BY 1 ORDER BY 1 LIMIT 100
      """
  }
}

/// The figures of months, the last of which may not be over.
package struct MonthFigures: Sendable {
  /// The months in ascending order.
  package let months: [FigureMonth]
  /// The day up to which the last month was counted.
  package let lastDay: Day
  package let isLastPartial: Bool
  private let values: [FigureMonth: [String: String?]]

  /// A figure of a month up to its end, or the last counted day.
  package func value(_ figure: MonthFigure, of month: FigureMonth) -> String? {
    value(figure.rawValue, figure, month)
  }

  /// A figure of a month up to the same day as the last month's last one.
  package func sameDays(_ figure: MonthFigure, of month: FigureMonth) -> String? {
    value("same_" + figure.rawValue, figure, month)
  }

  private func value(_ name: String, _ figure: MonthFigure, _ month: FigureMonth) -> String? {
    guard months.contains(month) else { return nil }
    if let value = values[month]?[name] { return value }
    return figure.kind == .ratio ? nil : "0"
  }

  /// The same day of a month as the last month's last one, or the last one of a shorter month.
  package func sameDay(of month: FigureMonth) -> Day { month.day(Self.dayOfMonth(lastDay)) }

  fileprivate static func dayOfMonth(_ day: Day) -> Int { Int(day.description.suffix(2)) ?? 1 }

  /// The same day as the last one of each month.
  fileprivate static func sameDays(_ calendar: FigureCalendar) -> [String] {
    calendar.months.compactMap { Day($0.start) }
      .map { FigureMonth(of: $0).day(dayOfMonth(calendar.lastDay)).description }
  }

  static func queries(_ scope: FigureScope, _ calendar: FigureCalendar) -> [Query] {
    MonthFigure.Source.allCases.map { MonthFigure.months($0, scope, calendar) }
  }

  /// - Parameter answers: those of ``queries(_:_:)``.
  init(_ answers: [Rows], _ calendar: FigureCalendar) throws {
    var values: [FigureMonth: [String: String?]] = [:]
    for rows in answers {
      for row in rows {
        guard let month = FigureMonth(String(try row.decode("month", as: String.self).dropLast(3))) else {
          continue
        }
        for column in rows.columns where column != "month" {
          values[month, default: [:]][column] = .some(try row.decode(column, as: String?.self))
        }
      }
    }
    self.values = values
    months = calendar.months.compactMap { FigureMonth(String($0.start.dropLast(3))) }
    lastDay = calendar.lastDay
    isLastPartial = calendar.isLastMonthPartial
  }
}

import Actions
import Charts
import Configuration
import Foundation
import HTTP
import Numbers
import Text

extension Console {
  /// *Report*: one page of a month to print, without any customer.
  static func report(_ parts: Parts) -> ConsoleScreen {
    let page = ReportPage(figures: parts.figures, catalog: parts.catalog)
    return ConsoleScreen(
      entry: "Report", path: "/console/report", operation: .numbers,
      pages: [ConsolePage(path: "/console/report", operation: .numbers) { try await page.answer($0) }],
      templates: ["report": PackageResources.report_mustache])
  }
}

private struct ReportPage: Sendable {
  let figures: BusinessFigures
  let catalog: AppCatalog

  private struct Content: Sendable {
    var month: String?
    var app: String
    var state: String
    var currency: String
    var lists: [FigureChoice.List]
    var former = ""
    var yearBefore = ""
    /// The last day of the figures.
    var lastDay = ""
    /// The last day of lifetime values, which views have for today alone.
    var counted = ""
    var figures: [Line] = []
    var movement: [Step] = []
    var charts: [Drawing] = []
    var retention = ""
    var products: FigureRows?
    var losses: FigureRows?
    var values: FigureRows?
    var changes: FigureRows?
    var definitions: [FigureDefinition] = []
  }

  private struct Line: Sendable {
    let title: String
    let now: String
    let before: String
    let change: String?
    let tone: String
    let yearBefore: String
  }

  private struct Step: Sendable {
    let title: String
    let amount: String
    let isSum: Bool
  }

  private struct Drawing: Sendable {
    let title: String
    let svg: String
    let legend: String
  }

  private static let charts: [FigureChart] = [
    .mrr, .revenue, .subscribers, .churn, .retention, .lifetimeValue,
  ]
  private static let lines: [MonthFigure] = [
    .mrr, .arr, .revenue, .refunds, .net, .paying, .inTrial, .lifetime, .new, .renewed, .cancelled, .lost,
    .churn, .trialConversion,
  ]

  func answer(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    guard let today = try await figures.calendar(.year) else {
      return .page(
        ConsoleContent(
          title: "Report", template: "report",
          content: Content(app: "", state: "", currency: "", lists: [])))
    }
    let month = try asked(request, today)
    guard let calendar = try await figures.calendar(of: month) else {
      throw Problem.notFound("No day of \(month) was counted.")
    }
    let choice = try await FigureChoice.read(request, figures, catalog, month: calendar)
    let page = try await figures.page(Self.charts, choice.scope, calendar, month: month)
    let isPartial = calendar.isLastMonthPartial
    let name = Self.name(month)
    let asOf =
      RFC3339.date(from: calendar.asOf).map { Moment($0, from: request.instant).text } ?? calendar.asOf
    var content = Content(
      month: name, app: choice.scope.bundleID.map { choice.names.name($0, .app).text } ?? "All apps",
      state: isPartial
        ? "Up to \(Self.text(calendar.lastDay)), beside the same days of other months. Counted up to \(asOf)."
        : "The whole month.",
      currency: choice.scope.currency, lists: lists(choice, month, today))
    content.former = Self.name(month.advanced(by: -1))
    content.yearBefore = Self.name(month.advanced(by: -12))
    content.lastDay = Self.text(calendar.lastDay)
    content.counted = Self.text(today.lastDay)
    content.figures = Self.lines.map { line($0, month, page.months, isPartial, choice.scope) }
    content.movement = movement(month, page.months, choice.scope)
    for chart in Self.charts {
      guard let table = choice.table(chart, in: page) else { continue }
      if chart == .lifetimeValue {
        if !table.rows.isEmpty {
          content.values = FigureRows(table, choice.names, of: chart.definitions.first?.relation)
        }
        continue
      }
      let drawing = FigureDrawing(chart, table, choice, changes: page.priceChanges)
      if chart == .retention {
        content.retention = drawing.small
      } else {
        content.charts.append(
          Drawing(
            title: FigureText.title(chart, choice.scope), svg: drawing.small, legend: drawing.legend))
      }
    }
    if let parts = page.parts {
      content.products = parts.products.rows.isEmpty ? nil : FigureRows(parts.products, choice.names)
      content.losses = parts.losses.rows.isEmpty ? nil : FigureRows(parts.losses, choice.names)
    }
    var changes = page.priceChanges
    changes.rows = changes.rows.filter { $0[0]?.hasPrefix(month.description) == true }
    content.changes = changes.rows.isEmpty ? nil : FigureRows(changes, choice.names)
    let columns = Self.lines.flatMap(\.definitions) + Self.charts.flatMap(\.definitions)
    var known: Set<FigureColumn> = []
    content.definitions = FigureDefinition.all(
      columns.filter { known.insert($0).inserted }, page.meanings, hasNames: false)
    return .page(ConsoleContent(title: "Report of \(name)", template: "report", content: content))
  }

  /// The month of a request; without one the last month that is over, else the running one.
  private func asked(_ request: ConsoleRequest, _ today: FigureCalendar) throws -> FigureMonth {
    let running = FigureMonth(of: today.lastDay)
    guard let text = request.value("month") else {
      return today.isLastMonthPartial ? running.advanced(by: -1) : running
    }
    guard let month = FigureMonth(text), month.description >= "2008-07", month <= running else {
      throw Problem.invalidRequest("'month' must be one such as 2026-11, up to \(running).")
    }
    return month
  }

  private func lists(
    _ choice: FigureChoice, _ month: FigureMonth, _ today: FigureCalendar
  ) -> [FigureChoice.List] {
    let running = FigureMonth(of: today.lastDay)
    let months = (0..<25).map { running.advanced(by: -$0) }
    return [
      FigureChoice.List(
        "month", "Month", all: nil, months.map(\.description), month.description
      ) { text in .init(text: FigureMonth(text).map(Self.name) ?? text) }
    ] + choice.lists(["app", "currency"])
  }

  private static func text(_ day: Day) -> String {
    ChartDay(day.description)?.long ?? day.description
  }

  private static func name(_ month: FigureMonth) -> String {
    ChartDay(month.firstDay.description)?.monthAndYear ?? month.description
  }

  private func unit(_ figure: MonthFigure, _ texts: [String?], _ scope: FigureScope) -> ChartUnit {
    switch figure.kind {
    case .money:
      .money(currency: scope.currency, digits: texts.reduce(0) { max($0, FigureText.decimals(of: $1)) })
    case .ratio: .ratio
    default: .count
    }
  }

  private func line(
    _ figure: MonthFigure, _ month: FigureMonth, _ months: MonthFigures, _ isPartial: Bool,
    _ scope: FigureScope
  ) -> Line {
    func value(_ month: FigureMonth) -> String? {
      isPartial ? months.sameDays(figure, of: month) : months.value(figure, of: month)
    }
    let (now, before) = (value(month), value(month.advanced(by: -1)))
    let yearBefore = value(month.advanced(by: -12))
    let unit = unit(figure, [now, before, yearBefore], scope)
    func text(_ value: String?) -> String { value.flatMap(Double.init).map(unit.text) ?? "–" }
    let (change, tone) = FigureChange.text(now, before, figure)
    return Line(
      title: FigureText.title(figure), now: text(now), before: text(before), change: change, tone: tone,
      yearBefore: text(yearBefore))
  }

  private func movement(
    _ month: FigureMonth, _ months: MonthFigures, _ scope: FigureScope
  ) -> [Step] {
    let figures: [MonthFigure] = [
      .mrrStart, .mrrNew, .mrrExpansion, .mrrMoved, .mrrContraction, .mrrChurn, .mrr,
    ]
    let values = figures.map { months.value($0, of: month) }
    let unit = unit(.mrr, values, scope)
    return zip(figures, values).compactMap { figure, value in
      guard let amount = value.flatMap(Double.init) else { return nil }
      if figure == .mrrMoved, amount == 0 { return nil }
      let isLoss = figure == .mrrContraction || figure == .mrrChurn
      return Step(
        title: figure == .mrr ? "MRR at the end" : FigureText.title(figure),
        amount: unit.text(isLoss ? -amount : amount), isSum: figure == .mrr || figure == .mrrStart)
    }
  }
}

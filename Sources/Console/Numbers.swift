import Actions
import Charts
import Configuration
import Foundation
import HTTP
import Numbers
import Text

extension Console {
  /// *Numbers*: the business in cards and charts.
  static func numbers(_ parts: Parts) -> ConsoleScreen {
    let page = NumbersPage(figures: parts.figures, catalog: parts.catalog)
    return ConsoleScreen(
      entry: "Numbers", path: "/console/numbers", operation: .numbers,
      pages: [
        ConsolePage(path: "/console/numbers", operation: .numbers) { try await page.overview($0) },
        ConsolePage(path: "/console/numbers/{chart}", operation: .numbers) { try await page.chart($0) },
        ConsolePage(path: "/console/numbers/{chart}/csv", operation: .numbers) { try await page.csv($0) },
      ],
      templates: [
        "numbers": PackageResources.numbers_mustache, "chart": PackageResources.chart_mustache,
        "choices": PackageResources.choices_mustache, "definitions": PackageResources.definitions_mustache,
        "figures": PackageResources.figures_mustache,
      ])
  }
}

/// What a reader has chosen, and what can be chosen instead.
struct FigureChoice: Sendable {
  var scope: FigureScope
  var calendar: FigureCalendar
  var choices: BusinessFigures.Choices
  var names: FigureNames

  /// The choice of a request; `nil` if no day was counted yet.
  /// - Throws: 400 `invalid_request` for a name that is none of a breakdown or a period.
  static func read(
    _ request: ConsoleRequest, _ figures: BusinessFigures, _ catalog: AppCatalog
  ) async throws -> FigureChoice? {
    let period = try named("period", FigurePeriod.self, in: request) ?? .year
    let breakdown = try named("by", FigureBreakdown.self, in: request) ?? .product
    guard let calendar = try await figures.calendar(period) else { return nil }
    return try await make(request, figures, catalog, calendar, breakdown, period)
  }

  /// The choice of a request for the report of a month.
  static func read(
    _ request: ConsoleRequest, _ figures: BusinessFigures, _ catalog: AppCatalog, month: FigureCalendar
  ) async throws -> FigureChoice {
    try await make(request, figures, catalog, month, .product, .year)
  }

  private static func make(
    _ request: ConsoleRequest, _ figures: BusinessFigures, _ catalog: AppCatalog, _ calendar: FigureCalendar,
    _ breakdown: FigureBreakdown, _ period: FigurePeriod
  ) async throws -> FigureChoice {
    let choices = try await figures.choices(calendar)
    let currency = request.value("currency") ?? choices.currencies.first ?? "USD"
    guard currency.utf8.count == 3, currency.utf8.allSatisfy({ (0x41...0x5A).contains($0) }) else {
      throw Problem.invalidRequest("'currency' must be a code of ISO 4217 such as USD.")
    }
    let scope = FigureScope(
      bundleID: try name("app", in: request), tier: try name("tier", in: request),
      productID: try name("product", in: request), currency: currency, breakdown: breakdown, period: period)
    return FigureChoice(
      scope: scope, calendar: calendar, choices: choices,
      names: FigureNames(catalog, choices, bundleID: scope.bundleID))
  }

  private static func named<Value: RawRepresentable & CaseIterable>(
    _ name: String, _ type: Value.Type, in request: ConsoleRequest
  ) throws -> Value? where Value.RawValue == String {
    guard let text = request.value(name) else { return nil }
    guard let value = Value(rawValue: text) else {
      let known = Value.allCases.map(\.rawValue).joined(separator: ", ")
      throw Problem.invalidRequest("'\(name)' must be one of \(known).")
    }
    return value
  }

  private static func name(_ name: String, in request: ConsoleRequest) throws -> String? {
    guard let text = request.value(name) else { return nil }
    guard text.utf8.count <= 255, !text.hasControlCharacters else {
      throw Problem.invalidRequest("'\(name)' must have at most 255 bytes, without control characters.")
    }
    return text
  }

  /// A page of the figures with the same choice.
  func address(_ path: String) -> String {
    link(
      path,
      [
        "app": scope.bundleID, "tier": scope.tier, "product": scope.productID, "currency": scope.currency,
        "by": scope.breakdown.rawValue, "period": scope.period.rawValue,
      ])
  }

  /// The table of a chart, with its series in the order of their places.
  func table(_ chart: FigureChart, in page: BusinessFigures.Page) -> FigureTable? {
    page.tables[chart].map { names.ordered($0, of: chart, scope) }
  }

  /// The lists of the form.
  func lists(_ shown: Set<String>) -> [List] {
    let periods = ["1m": "31 days", "3m": "3 months", "12m": "12 months", "24m": "24 months"]
    func list(
      _ name: String, _ label: String, all: String, _ ids: [String], _ chosen: String?,
      _ kind: FigureNames.Kind
    ) -> List {
      List(name, label, all: all, names.ordered(ids, kind), chosen) { names.name($0, kind) }
    }
    let lists = [
      list("app", "App", all: "All apps", choices.apps, scope.bundleID, .app),
      list("tier", "Tier", all: "All tiers", choices.tiers, scope.tier, .tier),
      list("product", "Product", all: "All products", choices.products, scope.productID, .product),
      List("currency", "Currency", all: nil, choices.currencies, scope.currency),
      List("by", "Divided by", all: nil, FigureBreakdown.allCases.map(\.rawValue), scope.breakdown.rawValue),
      List(
        "period", "Period", all: nil, FigurePeriod.allCases.map(\.rawValue), scope.period.rawValue
      ) { .init(text: periods[$0] ?? $0) },
    ]
    return lists.filter { shown.contains($0.name) }
  }

  /// A list of the form.
  struct List: Sendable {
    let name: String
    let label: String
    let options: [Option]

    struct Option: Sendable {
      let value: String
      let label: String
      let isChosen: Bool
      /// The whole id, where the label is another text.
      var full: String?
    }

    init(
      _ name: String, _ label: String, all: String?, _ values: [String], _ chosen: String?,
      labels: (String) -> FigureNames.Name = { .init(text: $0) }
    ) {
      self.name = name
      self.label = label
      // A value of the address stays chosen, also where it has no figures.
      let missing = chosen.flatMap { values.contains($0) ? nil : [$0] } ?? []
      options =
        (all.map { [Option(value: "", label: $0, isChosen: chosen == nil)] } ?? [])
        + (values + missing).map {
          let name = labels($0)
          return Option(value: $0, label: name.text, isChosen: $0 == chosen, full: name.id)
        }
    }
  }
}

/// The definition of a figure.
struct FigureDefinition: Sendable {
  let title: String
  /// The view and its column; `nil` on a page for readers without the database.
  let name: String?
  let meaning: String

  static func all(
    _ columns: [FigureColumn], _ meanings: [String: String], hasNames: Bool = true
  ) -> [FigureDefinition] {
    columns.map {
      FigureDefinition(
        title: FigureText.title($0.name, of: $0.relation).withCapital,
        name: hasNames ? $0.qualifiedName : nil,
        meaning: meanings[$0.qualifiedName].map(FigureText.meaning) ?? "not documented")
    }
  }
}

/// A table of figures for the partial `figures`.
struct FigureRows: Sendable {
  let heads: [Head]
  let rows: [Line]

  struct Head: Sendable {
    let title: String
    /// The whole id, where the title is short for one.
    let fullTitle: String?
    let isNumber: Bool
  }

  struct Line: Sendable {
    let head: String
    let fullHead: String?
    let cells: [Cell]
    let isPartial: Bool
  }

  struct Cell: Sendable {
    let text: String
    let fullText: String?
    let isNumber: Bool
  }

  /// - Parameters:
  ///   - series: what the names of the columns after the first one are; `nil` if they are names of a view's columns.
  ///   - view: the view of those.
  ///   - isReversed: whether the last row comes first.
  init(
    _ table: FigureTable, _ names: FigureNames, series: FigureNames.Kind? = nil, of view: String? = nil,
    isReversed: Bool = false
  ) {
    let digits = FigureText.digits(in: table)
    func isNumber(_ kind: FigureTable.Kind) -> Bool { kind != .text && kind != .date }
    heads = table.columns.enumerated().map { place, column in
      let name =
        if place > 0, let series { names.name(column.name, series) } else {
          FigureNames.Name(text: FigureText.title(column.name, of: view))
        }
      return Head(title: name.text, fullTitle: name.id, isNumber: isNumber(column.kind))
    }
    let lines = table.rows.enumerated().map { place, row in
      let cells = zip(row, table.columns).map { value, column in
        let name: FigureNames.Name =
          switch (column.name, column.kind, value) {
          case ("product", .text, let id?): names.name(id, .product)
          case ("app", .text, let id?): names.name(id, .app)
          case ("loss", .text, let id?), ("reason", .text, let id?): .init(text: FigureText.title(id))
          default: .init(text: FigureText.cell(value, column.kind, digits: digits))
          }
        return Cell(text: name.text, fullText: name.id, isNumber: isNumber(column.kind))
      }
      return Line(
        head: cells.first?.text ?? "", fullHead: cells.first?.fullText, cells: Array(cells.dropFirst()),
        isPartial: table.isLastPartial && place == table.rows.count - 1)
    }
    rows = isReversed ? lines.reversed() : lines
  }
}

private struct NumbersPage: Sendable {
  let figures: BusinessFigures
  let catalog: AppCatalog

  private struct Content: Sendable {
    var asOf: Moment?
    var isRunning = false
    var lists: [FigureChoice.List] = []
    var action = "/console/numbers"
    var cards: [Card] = []
    var charts: [ChartPanel] = []
    var reset: String?
    var report = "/console/report"
  }

  private struct Card: Sendable {
    let title: String
    let value: String
    /// Such as `+3.2 %`, with the class of its colour.
    let change: String?
    let tone: String
    let before: String
    let spark: String
    let formula: String
    let definitions: [FigureDefinition]
  }

  private struct ChartPanel: Sendable {
    let id: String
    let title: String
    let path: String
    let drawing: String
    let legend: String
    let isWide: Bool
  }

  // MARK: The overview

  func overview(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    var content = Content()
    if let choice = try await FigureChoice.read(request, figures, catalog) {
      let charts = FigureChart.allCases
      let page = try await figures.page(charts, choice.scope, choice.calendar)
      content.asOf = moment(choice.calendar.asOf, request)
      content.isRunning = !choice.calendar.isLastDayOver
      content.lists = choice.lists(["app", "tier", "product", "currency", "by", "period"])
      content.cards = MonthFigure.cards.map { card($0, page, choice.scope) }
      content.charts = charts.compactMap { chart in
        guard let table = choice.table(chart, in: page) else { return nil }
        let drawing = FigureDrawing(chart, table, choice, changes: page.priceChanges)
        return ChartPanel(
          id: chart.rawValue, title: FigureText.title(chart, choice.scope),
          path: choice.address("/console/numbers/\(chart.rawValue)"), drawing: drawing.small,
          legend: drawing.legend, isWide: chart == .retention)
      }
      content.report = link(
        "/console/report", ["app": choice.scope.bundleID, "currency": choice.scope.currency])
      content.reset = request.query.raw.isEmpty ? nil : "/console/numbers"
    }
    return .page(ConsoleContent(title: "Numbers", template: "numbers", content: content))
  }

  private func moment(_ text: String, _ request: ConsoleRequest) -> Moment? {
    RFC3339.date(from: text).map { Moment($0, from: request.instant) }
  }

  /// The last month to date, beside the same days of the month before.
  private func card(_ figure: MonthFigure, _ page: BusinessFigures.Page, _ scope: FigureScope) -> Card {
    let months = page.months
    let values = months.months.map { months.value(figure, of: $0) }
    let digits = values.reduce(0) { max($0, FigureText.decimals(of: $1)) }
    let unit: ChartUnit =
      switch figure.kind {
      case .money: .money(currency: scope.currency, digits: digits)
      case .ratio: .ratio
      default: .count
      }
    func text(_ value: String?) -> String { value.flatMap(Double.init).map(unit.text) ?? "–" }
    let last = months.months.last
    let now = last.flatMap { months.value(figure, of: $0) }
    let before = last.flatMap { months.sameDays(figure, of: $0.advanced(by: -1)) }
    let (change, tone) = FigureChange.text(now, before, figure)
    func former() -> String {
      guard let month = last?.advanced(by: -1) else { return "" }
      let same = months.sameDay(of: month)
      guard let day = ChartDay(same.description) else { return "" }
      let name = day.monthAndYear
      guard let before else { return "no figure for the same days of \(name)" }
      guard figure.isState else { return "\(text(before)) on the same days of \(name)" }
      let end = months.value(figure, of: month)
      return same == month.lastDay
        ? "\(text(before)) at the end of \(name)"
        : "\(text(before)) on \(day.short), \(text(end)) at the end of \(name)"
    }
    return Card(
      title: FigureText.title(figure), value: text(now), change: change, tone: tone, before: former(),
      spark: Sparkline(
        title: "\(FigureText.title(figure)) of the last \(values.count) months", unit: unit,
        values: values.map { $0.flatMap(Double.init) }, isLastPartial: months.isLastPartial
      ).svg,
      formula: FigureText.formula(figure),
      definitions: FigureDefinition.all(figure.definitions, page.meanings))
  }

  // MARK: One chart

  private struct ChartContent: Sendable {
    var title: String
    var asOf: Moment?
    var isRunning: Bool
    var lists: [FigureChoice.List]
    var action: String
    var back: String
    var small: String
    var large: String?
    var legend: String
    var csv: String
    var formula: String
    var definitions: [FigureDefinition]
    var table: FigureRows
    var changes: FigureRows?
    var changesDefinition: [FigureDefinition]
  }

  private func asked(
    _ request: ConsoleRequest
  ) async throws -> (FigureChart, FigureChoice, BusinessFigures.Page, FigureTable) {
    let name: String = try request.request.parameters.require("chart")
    guard let chart = FigureChart(rawValue: name) else {
      let known = FigureChart.allCases.map(\.rawValue).joined(separator: ", ")
      throw Problem.notFound("There is no chart '\(name)'; there are \(known).")
    }
    guard let choice = try await FigureChoice.read(request, figures, catalog) else {
      throw Problem.notFound("No day has been counted yet. `receiptd serve` counts days every five minutes.")
    }
    let page = try await figures.page([chart], choice.scope, choice.calendar)
    guard let table = choice.table(chart, in: page) else { throw Problem.internalError }
    return (chart, choice, page, table)
  }

  func chart(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    let (chart, choice, page, table) = try await asked(request)
    let drawing = FigureDrawing(chart, table, choice, changes: page.priceChanges)
    let title = FigureText.title(chart, choice.scope)
    var lists: Set = ["app", "period"]
    if chart != .paywall { lists.formUnion(["tier", "product"]) }
    if chart.isMoney { lists.insert("currency") }
    if chart.hasBreakdown { lists.insert("by") }
    let hasMarks = drawing.large != nil && chart != .lifetimeValue && chart != .churn
    let content = ChartContent(
      title: title, asOf: moment(choice.calendar.asOf, request), isRunning: !choice.calendar.isLastDayOver,
      lists: choice.lists(lists), action: "/console/numbers/\(chart.rawValue)",
      back: choice.address("/console/numbers"), small: drawing.small, large: drawing.large,
      legend: drawing.legend, csv: choice.address("/console/numbers/\(chart.rawValue)/csv"),
      formula: FigureText.formula(chart), definitions: FigureDefinition.all(chart.definitions, page.meanings),
      table: FigureRows(
        chart == .mrr ? table.withTotal : table, choice.names, series: .init(of: chart, choice.scope),
        of: chart.definitions.first?.relation, isReversed: drawing.large != nil),
      changes: hasMarks && !page.priceChanges.rows.isEmpty
        ? FigureRows(page.priceChanges, choice.names) : nil,
      changesDefinition: FigureDefinition.all([BusinessFigures.priceColumn], page.meanings))
    return .page(ConsoleContent(title: title, template: "chart", content: content))
  }

  func csv(_ request: ConsoleRequest) async throws -> ConsoleAnswer {
    let (chart, choice, _, table) = try await asked(request)
    return .csv(
      (chart == .mrr ? table.withTotal : table).csv, named: "\(chart.rawValue)-\(choice.calendar.lastDay)")
  }
}

/// The change of a figure.
enum FigureChange {
  /// A text such as `+3.2 %` (of a ratio: `+0.4 points`), and whether it is `good`, `bad` or neither.
  static func text(_ now: String?, _ before: String?, _ figure: MonthFigure) -> (String?, String) {
    guard let now = now.flatMap(Double.init), let before = before.flatMap(Double.init) else {
      return (nil, "")
    }
    let difference = now - before
    let shown: String
    if figure.kind == .ratio {
      // The difference of the two percentages as the page shows them.
      func percent(_ ratio: Double) -> Double { (ratio * 1_000).rounded() / 10 }
      shown = signed(percent(now) - percent(before)) + " points"
    } else if before > 0 {
      shown = signed(difference / before * 100) + " %"
    } else {
      return (nil, "")
    }
    guard difference != 0 else { return (shown, "") }
    let isGoodUp: Bool
    switch figure {
    case .churn, .refunds, .lost, .cancelled, .mrrChurn, .mrrContraction: isGoodUp = false
    default: isGoodUp = true
    }
    return (shown, (difference > 0) == isGoodUp ? "good" : "bad")
  }

  private static func signed(_ value: Double) -> String {
    (value > 0 ? "+" : "") + ChartNumber.grouped(value, digits: 1)
  }
}

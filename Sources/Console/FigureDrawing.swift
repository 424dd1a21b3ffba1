import Charts
import Foundation
import Numbers
import Text

/// A chart's words, drawings and table.
struct FigureDrawing: Sendable {
  let chart: FigureChart
  let table: FigureTable
  let scope: FigureScope
  let names: FigureNames
  /// The changes of prices in the period.
  let changes: FigureTable
  /// The number of decimals of amounts.
  let digits: Int

  init(
    _ chart: FigureChart, _ table: FigureTable, _ choice: FigureChoice, changes: FigureTable
  ) {
    self.chart = chart
    self.table = table
    scope = choice.scope
    names = choice.names
    self.changes = changes
    digits = FigureText.digits(in: table)
  }

  /// The text of an `<svg>` or `<table>`, which fits a column or a narrow screen.
  var small: String { draw(.small) }

  /// The text of an `<svg>` for a wide screen; `nil` if the small one fits any screen.
  var large: String? { isTimeSeries ? draw(.large) : nil }

  /// The names of the series beside their colours; empty for a drawing with its names inside.
  var legend: String {
    // The only product or reason is named too.
    let isNamed = FigureNames.Kind(of: chart, scope) != nil && !seriesColumns.isEmpty
    guard isTimeSeries, seriesColumns.count > 1 || lineColumn != nil || isNamed else { return "" }
    return ChartLegend(seriesColumns.map(series), line: lineColumn.map(series)).html
  }

  private var isTimeSeries: Bool {
    switch chart {
    case .trials, .paywall, .retention: false
    default: true
    }
  }

  private func draw(_ size: Chart.Size) -> String {
    switch chart {
    case .mrr: LineChart(time, isStacked: true).svg(size)
    case .subscribers, .churn: LineChart(time, isStacked: false).svg(size)
    case .movement, .revenue: BarChart(time, line: lineColumn.map(series)).svg(size)
    case .cancellations, .ends, .refunds, .lifetimeValue:
      BarChart(time, line: lineColumn.map(series)).svg(size)
    case .trials: funnel(["started", "ended", "converted"])
    case .paywall: hasEvents ? funnel(["paywall_shown", "purchase_initiated", "new"]) : Self.noEvents
    case .retention: heat
    }
  }

  // MARK: Over time

  private var unit: ChartUnit {
    switch chart {
    case .churn, .retention: .ratio
    case _ where chart.isMoney: .money(currency: scope.currency, digits: digits)
    default: .count
    }
  }

  /// The columns that can be lines, areas or bars.
  private var possibleColumns: [String] {
    switch chart {
    case .movement: ["new", "expansion", "moved", "contraction", "churn"]
    case .revenue: ["revenue", "refunds"]
    case .lifetimeValue: ["ltv"]
    default: table.columns.dropFirst().map(\.name)
    }
  }

  /// The columns that are lines, areas or bars. A column without any value other than 0 is left out, unless all are.
  private var seriesColumns: [String] {
    let columns = possibleColumns
    let used = columns.filter { name in
      table.values(of: name).contains { $0.flatMap(Double.init) ?? 0 != 0 }
    }
    return chart == .movement || chart == .subscribers ? (used.isEmpty ? columns : used) : columns
  }

  /// The column of the line over bars.
  private var lineColumn: String? {
    switch chart {
    case .movement, .revenue: "net"
    case .lifetimeValue: table.values(of: "cac").contains { $0 != nil } ? "cac" : nil
    default: nil
    }
  }

  private func series(_ column: String) -> Chart.Series {
    let values = table.values(of: column).map { $0.flatMap(Double.init) }
    guard let kind = FigureNames.Kind(of: chart, scope) else {
      // A column has its colour also where one before it is left out.
      return Chart.Series(
        name: FigureText.title(column), values: values, colour: possibleColumns.firstIndex(of: column))
    }
    let name = names.name(column, kind)
    return Chart.Series(
      name: name.text, values: values, colour: names.colour(column, kind), detail: name.id)
  }

  private var time: Chart {
    let isState = chart == .mrr || chart == .subscribers
    let grain: ChartGrain =
      isState ? .day : chart.isByMonth ? .month : ChartGrain(rawValue: scope.period.grain.rawValue) ?? .day
    return Chart(
      title: FigureText.title(chart, scope), unit: unit, grain: grain,
      days: table.rows.compactMap { $0[0].flatMap(ChartDay.init) },
      series: seriesColumns.map(series), isLastPartial: table.isLastPartial,
      marks: chart == .lifetimeValue || chart == .churn ? [] : marks)
  }

  /// One mark for each day with changes of prices.
  private var marks: [Chart.Mark] {
    var marks: [Chart.Mark] = []
    for row in changes.rows.reversed() {
      guard let day = row[0].flatMap(ChartDay.init) else { continue }
      let place = row[3].map { " (\($0))" } ?? ""
      let product = names.name(row[2] ?? "", .product).text
      let text = "\(product)\(place): \(row[4] ?? "–") to \(row[5] ?? "–") \(scope.currency)"
      if let last = marks.indices.last, marks[last].day == day {
        // A tooltip of a few lines; the table has all.
        if marks[last].text.split(separator: "\n").count < 5 { marks[last].text += "\n" + text }
      } else {
        marks.append(Chart.Mark(day: day, text: text))
      }
    }
    return marks
  }

  // MARK: Funnels and cohorts

  private static let noEvents =
    "<p class=\"hint\">No event of a client was counted in this period, so there is no funnel. Clients report "
    + "<code>paywall_shown</code> and <code>purchase_initiated</code> as events.</p>"

  /// Whether clients reported an event of the paywall.
  private var hasEvents: Bool {
    ["paywall_shown", "purchase_initiated"].contains { name in
      table.values(of: name).contains { $0.flatMap(Double.init) ?? 0 != 0 }
    }
  }

  /// The funnel of the row without a month, which has the sums of all months.
  private func funnel(_ names: [String]) -> String {
    let total = table.rows.last { $0[0] == nil }
    func value(_ name: String) -> Double {
      guard let place = table.columns.firstIndex(where: { $0.name == name }) else { return 0 }
      return total?[place].flatMap(Double.init) ?? 0
    }
    return Funnel(
      title: FigureText.title(chart, scope),
      steps: names.map { name in
        // A trial that runs may still be paid for, so it is in no step after the first.
        Funnel.Step(
          name: FigureText.title(name),
          value: name == "ended" ? value("converted") + value("lapsed") : value(name))
      }
    ).svg()
  }

  private static let partialNote =
    "<p class=\"hint\">In italics: a part of the month's subscriptions has not reached this age yet. The percentage is of "
    + "those that have, and will change: do not compare it with other months.</p>"

  private var heat: String {
    var rows: [HeatTable.Row] = []
    for row in table.rows {
      guard let cohort = row[0], let day = ChartDay(cohort), let months = row[1].flatMap(Int.init) else {
        continue
      }
      if rows.last?.name != day.monthAndYear {
        rows.append(.init(name: day.monthAndYear, size: FigureText.count(row[2]), cells: []))
      }
      let cell = row[6].flatMap(Double.init).map { value in
        HeatTable.Cell(
          value: value,
          tooltip:
            "\(day.monthAndYear), month \(months): \(FigureText.count(row[3])) of \(FigureText.count(row[2])) are active"
            + (row[5] == "0" ? "" : ", \(FigureText.count(row[5])) have not reached it"),
          isPartial: row[5] != "0")
      }
      rows[rows.count - 1].cells.append(cell)
    }
    let table = HeatTable(
      title: "Percent still active, by months since the first payment",
      heads: ("First paid", FigureText.title("customers", of: "kpi_cohorts").withCapital),
      ages: (1...12).map(String.init), rows: rows
    ).html
    return rows.contains { $0.cells.contains { $0?.isPartial == true } } ? table + Self.partialNote : table
  }
}

/// Figures as text for a reader.
enum FigureText {
  /// The name of a chart.
  static func title(_ chart: FigureChart) -> String {
    switch chart {
    case .mrr: "Monthly recurring revenue"
    case .movement: "Movement of MRR"
    case .revenue: "Revenue and refunds"
    case .subscribers: "Subscribers"
    case .churn: "Churn by month"
    case .trials: "Trials"
    case .paywall: "Paywall"
    case .retention: "Retention"
    case .cancellations: "Renewal turned off, by reason"
    case .ends: "Ended subscriptions, by reason"
    case .refunds: "Refunds, by reason"
    case .lifetimeValue: "Lifetime value by cohort"
    }
  }

  /// The name of a chart with its currency and what divides it.
  static func title(_ chart: FigureChart, _ scope: FigureScope) -> String {
    title(chart) + (chart.isMoney ? " in \(scope.currency)" : "")
      + (chart.hasBreakdown ? ", by \(scope.breakdown.rawValue)" : "")
  }

  /// How a chart's figures are made of the columns that define it.
  static func formula(_ chart: FigureChart) -> String {
    switch chart {
    case .mrr: "The sum of mrr at the end of each day."
    case .movement:
      "Sums of the days. The line is their net: the change of MRR, apart from subscriptions in other currencies."
    case .revenue: "Sums of the days; refunds stand below 0, and the line is what remains."
    case .subscribers: "Sums at the end of each day."
    case .churn: "The sum of a month's lost, divided by paying_start of its first day."
    case .trials:
      "Trials by the month in which they started. Ended: converted and lapsed. A trial that runs is in the first step alone."
    case .paywall:
      "Sums of the months. Clients report the first two, and purchases come from the App Store; all products of the app."
    case .retention:
      "Of the subscriptions that reached the age, the part that was active then."
    case .cancellations, .ends, .refunds: "Sums of the days, by reason."
    case .lifetimeValue:
      "The sum of net divided by the sum of customers, up to today. The line is what a new customer cost, where costs are known."
    }
  }

  /// The heading of a column of a view. Columns of one name mean different things in different views.
  static func title(_ column: String, of view: String?) -> String {
    switch (view, column) {
    case ("kpi_cohorts", "customers"): "subscriptions"
    case ("kpi_lifetime_value", "customers"): "customers of the month"
    case ("kpi_lifetime_value", "revenue"): "revenue since"
    case ("kpi_lifetime_value", "refunds"): "refunds since"
    case ("kpi_lifetime_value", "net"): "net since"
    default: title(column)
    }
  }

  /// The heading of a column.
  static func title(_ column: String) -> String {
    switch column {
    case "ltv": "LTV"
    case "cac": "cost of a customer (CAC)"
    case "in_trial": "in trial"
    case "non_renewing": "not renewing"
    case "paywall_shown": "paywall shown"
    case "purchase_initiated": "purchase begun"
    case "former_price": "former price"
    case "mrr": "MRR"
    case "paying_start": "paying at the start"
    case "mrr_new": "new MRR"
    case "mrr_expansion": "MRR gained by changes to a dearer product"
    case "mrr_moved": "MRR moved by changes of product"
    case "mrr_contraction": "MRR lost by changes to a cheaper product"
    case "mrr_churn": "MRR of subscriptions that were lost"
    // Losses and their reasons.
    case "cancelled": "renewal turned off"
    case "expired": "ended"
    case "customer": "by the customer"
    case "billing": "not paid"
    case "price_increase": "price increase not accepted"
    case "not_for_sale": "product not for sale"
    case "refund": "after a refund"
    case "issue": "an issue with the app"
    case "unknown": "Apple did not tell"
    default: column.replacing("_", with: " ")
    }
  }

  /// A column's comment for a reader of the page: without names of tables, and with – for NULL, as tables show it.
  static func meaning(_ comment: String) -> String {
    comment.replacing(/; kpi_[a-z_]+ [^.;]*/, with: "").components(separatedBy: ". ")
      .map { $0.replacing(/^NULL:/, with: "–:") }
      .filter { !$0.contains("kpi_") && !$0.contains("NULL") }
      .joined(separator: ". ")
      .replacing(/[a-z]+(?:_[a-z0-9]+)+/) { title(String($0.0)) }
  }

  /// A whole number with separators.
  static func count(_ text: String?) -> String {
    text.flatMap(Double.init).map { ChartUnit.count.text($0) } ?? "–"
  }

  /// A cell of a table.
  static func cell(_ text: String?, _ kind: FigureTable.Kind, digits: Int) -> String {
    guard let text else { return kind == .date ? "all" : "–" }
    switch kind {
    case .date: return ChartDay(text)?.long ?? text
    case .text: return text
    case .count: return count(text)
    case .money: return Double(text).map { ChartNumber.grouped($0, digits: digits) } ?? text
    case .ratio: return Double(text).map { ChartUnit.ratio.text($0) } ?? text
    }
  }

  /// The most decimals of a table's amounts.
  static func digits(in table: FigureTable) -> Int {
    let places = table.columns.indices.filter { table.columns[$0].kind == .money }
    return table.rows.reduce(0) { most, row in
      places.reduce(most) { max($0, decimals(of: row[$1])) }
    }
  }

  /// The number of decimals of an amount as PostgreSQL writes it.
  static func decimals(of text: String?) -> Int {
    guard let text, let point = text.firstIndex(of: ".") else { return 0 }
    // No currency has one decimal.
    return min(max(text.distance(from: point, to: text.endIndex) - 1, 2), 3)
  }

  /// The name of a figure by month.
  static func title(_ figure: MonthFigure) -> String {
    switch figure {
    case .mrr: "MRR"
    case .arr: "ARR"
    case .paying: "Paying"
    case .inTrial: "In trial"
    case .new: "New customers"
    case .revenue: "Revenue"
    case .refunds: "Refunds"
    case .net: "Net revenue"
    case .churn: "Churn"
    case .trialConversion: "Trial conversion"
    case .lost: "Lost"
    case .lifetime: "Lifetime purchases"
    case .renewed: "Renewals"
    case .cancelled: "Renewal turned off"
    case .mrrStart: "MRR at the start"
    case .mrrNew: "New"
    case .mrrExpansion: "Expansion"
    case .mrrMoved: "Changes of product"
    case .mrrContraction: "Contraction"
    case .mrrChurn: "Churn"
    }
  }

  /// How a figure by month is made of the columns that define it.
  static func formula(_ figure: MonthFigure) -> String {
    switch figure {
    case .arr: "12 times the sum of mrr at the end of the last day."
    case .mrr, .paying, .inTrial, .lifetime: "The sum at the end of the last day."
    case .churn: "The sum of lost, divided by paying_start of the month's first day."
    case .trialConversion:
      "The sum of converted, divided by the sum of converted and lapsed on the same days."
    case .mrrStart: "The sum at the start of the month's first day."
    default: "The sum of the days."
    }
  }
}

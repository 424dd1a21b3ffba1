import Testing

@testable import Charts

/// Hand-made figures, and the places at which they are drawn.
@Suite struct ChartGeometryTests {
  private static let days = ["2026-11-01", "2026-11-02", "2026-11-03"].compactMap(ChartDay.init)

  private static func chart(
    _ series: [Chart.Series], isLastPartial: Bool = false, marks: [Chart.Mark] = [], grain: ChartGrain = .day
  ) -> Chart {
    Chart(
      title: "MRR", unit: .money(currency: "USD", digits: 2), grain: grain, days: days, series: series,
      isLastPartial: isLastPartial, marks: marks)
  }

  /// The y of the axis' ticks by their label.
  private static func ticks(_ drawing: Drawing) -> [String: Double] {
    Dictionary(
      drawing.all("text", class: "tick").filter { $0["text-anchor"] == "end" }
        .map { ($0.text, ($0.number("y") ?? .nan) - 3.5) }, uniquingKeysWith: { first, _ in first })
  }

  @Test func `a line goes through its values at equal distances`() throws {
    let drawing = Drawing(
      LineChart(Self.chart([.init(name: "pro", values: [0, 50, 100])]), isStacked: false).svg(.small))
    #expect(drawing.isWellFormed)
    let points = try #require(drawing.all("path", class: "line").first).points
    #expect(points.count == 3)
    #expect(abs((points[1].x - points[0].x) - (points[2].x - points[1].x)) < 0.2)
    let ticks = Self.ticks(drawing)
    #expect(Set(ticks.keys) == ["0", "25", "50", "75", "100"])
    for (point, label) in zip(points, ["0", "50", "100"]) {
      #expect(abs(point.y - (try #require(ticks[label]))) < 0.2)
    }
  }

  @Test func `a point stands at its day, halfway between the areas of the points beside it`() throws {
    let days = ["2026-10-18", "2026-10-25", "2026-10-31", "2026-11-01"].compactMap(ChartDay.init)
    let chart = Chart(
      title: "MRR", unit: .count, grain: .day, days: days, series: [.init(name: "pro", values: [1, 2, 3, 4])])
    let drawing = Drawing(LineChart(chart, isStacked: false).svg(.large))
    let points = try #require(drawing.all("path", class: "line").first).points
    let day = (points[3].x - points[0].x) / 14
    for (point, place) in zip(points, [0.0, 7, 13, 14]) {
      #expect(abs(point.x - points[0].x - place * day) < 0.2)
    }
    let areas = drawing.all("rect").filter { $0["class"] == nil }
    #expect(areas.count == 4)
    for (area, (left, right)) in zip(areas.dropFirst(), zip(points, points.dropFirst())) {
      #expect(abs((area.number("x") ?? .nan) - (left.x + right.x) / 2) < 0.2)
    }
  }

  @Test func `a long axis names each month once, every second one where more do not fit`() throws {
    // The ends of weeks and months of a year.
    let texts = (1...12).flatMap { month in
      ["07", "14", "21", "28"].map { "2026-\(month < 10 ? "0" : "")\(month)-\($0)" }
    }
    let days = (texts + ["2026-01-31", "2026-03-31"]).sorted().compactMap(ChartDay.init)
    let chart = Chart(
      title: "MRR", unit: .count, grain: .day, days: days,
      series: [.init(name: "pro", values: days.map { _ in 1 })])
    func labels(_ chart: Chart, _ size: Chart.Size) -> [String] {
      Drawing(LineChart(chart, isStacked: false).svg(size)).all("text", class: "tick")
        .filter { $0["text-anchor"] == "middle" }.map(\.text)
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    #expect(labels(chart, .large) == months.map { $0 + " 2026" })
    #expect(labels(chart, .small) == stride(from: 0, to: 12, by: 2).map { months[$0] + " 2026" })
    // The label of a month of which the axis has a few days leaves no room for the next one.
    let late = Chart(
      title: "MRR", unit: .count, grain: .day, days: Array(days.dropFirst(3)),
      series: [.init(name: "pro", values: days.dropFirst(3).map { _ in 1 })])
    #expect(labels(late, .large).prefix(3) == ["Jan 2026", "Mar 2026", "Apr 2026"])
  }

  @Test func `a series keeps its colour wherever it stands, and its legend has it too`() {
    let series = [
      Chart.Series(name: "annual", values: [1, 2, 3], colour: 4, detail: "com.example.annual"),
      Chart.Series(name: "(other)", values: [1, 1, 1], colour: 6),
      Chart.Series(name: "pro", values: [2, 2, 2]),
    ]
    for text in [
      LineChart(Self.chart(series), isStacked: true).svg(.small), BarChart(Self.chart(series)).svg(.small),
      ChartLegend(series).html,
    ] {
      for colour in ["c4", "c6", "c2"] { #expect(text.contains(" \(colour)\""), "\(colour)") }
      for colour in ["c0", "c1"] { #expect(!text.contains(" \(colour)\""), "\(colour)") }
    }
    #expect(ChartLegend(series).html.contains("<span title=\"com.example.annual\">annual</span>"))
  }

  @Test func `a missing value interrupts a line, and a lone value is a dot`() {
    let chart = Chart(
      title: "churn", unit: .ratio, grain: .month,
      days: ["2026-01-01", "2026-02-01", "2026-03-01", "2026-04-01", "2026-05-01"].compactMap(ChartDay.init),
      series: [.init(name: "all", values: [0.1, 0.2, nil, 0.3, nil])])
    let drawing = Drawing(LineChart(chart, isStacked: false).svg(.large))
    #expect(drawing.all("path", class: "line").map(\.points.count) == [2])
    #expect(drawing.all("circle", class: "dot").count == 1)
    #expect(drawing.all("g", class: "place").map(\.values) == [[0.1], [0.2], [nil], [0.3], [nil]])
    #expect(
      drawing.tooltips == [
        "Jan 2026\nall: 10.0 %", "Feb 2026\nall: 20.0 %", "Mar 2026", "Apr 2026\nall: 30.0 %", "May 2026",
      ])
  }

  @Test func `stacked areas end at the sum of the series below`() throws {
    let chart = Self.chart([
      .init(name: "pro", values: [10, 20, 30]), .init(name: "family", values: [30, 20, nil]),
    ])
    let drawing = Drawing(LineChart(chart, isStacked: true).svg(.small))
    let ticks = Self.ticks(drawing)
    // The upper series is drawn first, so that the lower one's edge covers it.
    let upper = try #require(drawing.all("path", class: "c1").first { $0.has(class: "line") }).points
    let lower = try #require(drawing.all("path", class: "c0").first { $0.has(class: "line") }).points
    let forty = try #require(ticks["40"])
    let zero = try #require(ticks["0"])
    func height(_ value: Double) -> Double { zero - (zero - forty) * value / 40 }
    for (point, value) in zip(upper, [40.0, 40, 30]) { #expect(abs(point.y - height(value)) < 0.2) }
    for (point, value) in zip(lower, [10.0, 20, 30]) { #expect(abs(point.y - height(value)) < 0.2) }
    #expect(drawing.tooltips.first == "1 Nov 2026\npro: 10.00 USD\nfamily: 30.00 USD\ntotal: 40.00 USD")
    let label = try #require(drawing.elements.first?["aria-label"])
    #expect(label == "MRR, 1 Nov 2026 to 3 Nov 2026; at the end: pro 30.00 USD, total 30.00 USD")
  }

  @Test func `the last segment is dashed while its day is not over`() throws {
    let series = [Chart.Series(name: "pro", values: [1, 2, 3])]
    for isStacked in [true, false] {
      let whole = Drawing(LineChart(Self.chart(series), isStacked: isStacked).svg(.small))
      #expect(whole.all("path", class: "line").allSatisfy { $0["stroke-dasharray"] == nil })
      let running = Drawing(
        LineChart(Self.chart(series, isLastPartial: true), isStacked: isStacked).svg(.small))
      let lines = running.all("path", class: "line")
      #expect(lines.map { $0["stroke-dasharray"] } == [nil, "3 3"])
      #expect(lines.map(\.points.count) == [2, 2])
      #expect(lines[0].points[1] == lines[1].points[0])
      #expect(try #require(running.tooltips.last).hasPrefix("3 Nov 2026 (not over)\n"))
    }
    let bars = Drawing(BarChart(Self.chart(series, isLastPartial: true)).svg(.small))
    #expect(bars.all("rect", class: "bar").map { $0.has(class: "partial") } == [false, false, true])
  }

  @Test func `bars stand on 0, negative ones hang below it, and the net line goes through their middle`()
    throws
  {
    let chart = Self.chart([
      .init(name: "revenue", values: [30, 20, 0]), .init(name: "refunds", values: [-10, 0, -20]),
    ])
    let drawing = Drawing(BarChart(chart, line: .init(name: "net", values: [20, 20, -20])).svg(.small))
    let ticks = Self.ticks(drawing)
    let zero = try #require(ticks["0"])
    let twenty = zero - (try #require(ticks["20"]))
    let bars = drawing.all("rect", class: "bar")
    #expect(bars.map { $0.has(class: "c0") } == [true, false, true, false])
    let heights = bars.map { $0.number("height") ?? .nan }
    for (height, value) in zip(heights, [30.0, 10, 20, 20]) {
      #expect(abs(height - twenty * value / 20) < 0.2)
    }
    let tops = bars.map { $0.number("y") ?? .nan }
    #expect(abs(tops[0] + heights[0] - zero) < 0.2 && abs(tops[1] - zero) < 0.2)
    let net = try #require(drawing.all("path", class: "net").first).points
    for (point, value) in zip(net, [20.0, 20, -20]) {
      #expect(abs(point.y - (zero - twenty * value / 20)) < 0.2)
    }
    let first = try #require(bars.first)
    #expect(abs(net[0].x - ((first.number("x") ?? 0) + (first.number("width") ?? 0) / 2)) < 0.2)
    #expect(drawing.all("g", class: "place").map(\.values) == [[30, -10, 20], [20, 0, 20], [0, -20, -20]])
  }

  @Test func `a mark stands at its day, and one outside of the axis is left out`() throws {
    let marks = try ["2026-11-02", "2026-10-31", "2026-11-04"].map {
      Chart.Mark(day: try #require(ChartDay($0)), text: "pro: 4.99 to 5.99 USD")
    }
    let chart = Self.chart([.init(name: "pro", values: [1, 2, 3])], marks: marks)
    let line = Drawing(LineChart(chart, isStacked: false).svg(.small))
    #expect(line.all("g", class: "mark").count == 1)
    let place = try #require(line.all("circle").first?.number("cx"))
    #expect(abs(place - (try #require(line.all("path", class: "line").first)).points[1].x) < 0.2)
    #expect(line.tooltips.contains("2 Nov 2026\npro: 4.99 to 5.99 USD"))
    // A bar's day begins at its left edge.
    let bars = Drawing(BarChart(chart).svg(.small))
    let second = bars.all("rect", class: "bar")[1]
    #expect(try #require(bars.all("circle").first?.number("cx")) < (try #require(second.number("x"))))
  }

  @Test func `a chart without figures says so`() {
    for text in [
      LineChart(Self.chart([]), isStacked: true).svg(.small),
      LineChart(Self.chart([.init(name: "pro", values: [nil, .nan, .infinity])]), isStacked: false).svg(
        .small),
      BarChart(Chart(title: "x", unit: .count, grain: .day, days: [], series: [])).svg(.large),
      Funnel(title: "x", steps: []).svg(), Funnel(title: "x", steps: [.init(name: "a", value: 0)]).svg(),
    ] {
      let drawing = Drawing(text)
      #expect(drawing.isWellFormed && text.contains("no figures in this period"))
      #expect(drawing.elements.first?["role"] == "img")
    }
  }

  @Test func `a funnel's bars have the widths of their values, and say the part of the step before`() throws {
    let funnel = Funnel(
      title: "trials", steps: [.init(name: "started", value: 200), .init(name: "paid", value: 50)])
    let drawing = Drawing(funnel.svg(width: 408))
    #expect(drawing.all("rect", class: "bar").map { $0.number("width") } == [400, 100])
    #expect(drawing.tooltips == ["started: 200", "paid: 50 · 25.0 % of started"])
    #expect(drawing.elements.first?["aria-label"] == "trials: started 200, paid 50 · 25.0 % of started")
  }

  @Test func `a heat table's cell has the shade of its value`() {
    func cell(_ value: Double, isPartial: Bool = false) -> HeatTable.Cell {
      .init(value: value, tooltip: "\(value)", isPartial: isPartial)
    }
    let table = HeatTable(
      title: "retention", heads: ("cohort", "customers"), ages: ["1", "2", "3", "4", "5"],
      rows: [
        .init(
          name: "Nov 2026", size: "4",
          cells: [cell(1), cell(0.999), cell(0), cell(0.25, isPartial: true), nil])
      ])
    let drawing = Drawing(table.html)
    #expect(drawing.isWellFormed)
    #expect(drawing.all("td").map { $0["class"] } == [nil, "h10", "h9", "h0", "h2 partial", nil])
    #expect(drawing.all("td").map(\.text) == ["4", "100", "100", "0", "25", ""])
    #expect(drawing.all("td").flatMap(\.values) == [1, 0.999, 0, 0.25])
  }

  @Test func `a sparkline goes from its lowest to its highest value`() {
    let line = Sparkline(title: "MRR", unit: .count, values: [1, nil, 3, 2], isLastPartial: true)
    let drawing = Drawing(line.svg)
    let paths = drawing.all("path", class: "line")
    #expect(paths.map(\.points.count) == [2, 2])
    #expect(paths[0].points.map(\.y) == [28, 4])
    #expect(paths[1]["stroke-dasharray"] == "2 2")
    #expect(drawing.elements.first?["aria-label"] == "MRR: from 1 to 2")
    #expect(drawing.elements.first?.values == [1, nil, 3, 2])
  }
}

import Foundation
import Platform
import Testing
import Text

@testable import Charts

/// What holds for every chart, whatever its figures and names are.
@Suite struct ChartPropertyTests {
  private static let hostile = [
    "<script>alert(1)</script>", "\"onload=\"x", "'><svg/onload=alert(1)>", "]]><!--", "&amp;&#0;",
    "a\0b\u{1B}[31m\r\n",
    "\u{202E}gro.elpmaxe", String(repeating: "ä", count: 500), "", " ", "日本語 🧑‍🧑‍🧒", "</title></svg>",
  ]

  private static func value(_ random: inout SplitMix64) -> Double? {
    switch Int.random(in: 0..<12, using: &random) {
    case 0: nil
    case 1: [.nan, .infinity, -.infinity, 1e300, -1e300][Int.random(in: 0..<5, using: &random)]
    case 2: 0
    case 3: [1e15, -1e15, Double.leastNonzeroMagnitude, 1e-9][Int.random(in: 0..<4, using: &random)]
    default: Double.random(in: -1_000...100_000, using: &random)
    }
  }

  private static func chart(_ random: inout SplitMix64) throws -> Chart {
    let count = [0, 1, 2, 3, 31, 105][Int.random(in: 0..<6, using: &random)]
    let grain = try #require(ChartGrain.allCases.randomElement(using: &random))
    let first = try #require(Self.date("2024-02-27"))
    let days = try (0..<count).map { try #require(ChartDay(Self.text(first + Double($0) * 86_400))) }
    let units: [ChartUnit] = [
      .count, .ratio, .money(currency: "USD", digits: 2), .money(currency: "<b>", digits: 9),
    ]
    let series = (0..<Int.random(in: 0...10, using: &random)).map { _ in
      Chart.Series(
        name: hostile.randomElement(using: &random) ?? "",
        values: (0..<max(count - Int.random(in: 0...1, using: &random), 0)).map { _ in value(&random) })
    }
    let marks = try (0..<3).map { number in
      Chart.Mark(
        day: try #require(ChartDay(Self.text(first + Double(number * 20 - 5) * 86_400))),
        text: hostile.randomElement(using: &random) ?? "")
    }
    return Chart(
      title: hostile.randomElement(using: &random) ?? "", unit: units.randomElement(using: &random) ?? .count,
      grain: grain, days: days, series: series, isLastPartial: Bool.random(using: &random), marks: marks)
  }

  private static func expectSound(_ text: String, _ seed: UInt64) {
    let drawing = Drawing(text)
    #expect(drawing.isWellFormed, "seed \(seed)")
    for (value, limit) in drawing.coordinates where !(value >= 0 && value <= limit) {
      Issue.record("seed \(seed): \(value) is not between 0 and \(limit)")
    }
    let known: Set = ["svg", "g", "path", "rect", "circle", "text", "title"]
    #expect(Set(drawing.elements.map(\.name)).isSubset(of: known), "seed \(seed)")
    // No script, no style, no event handler, no address.
    let attributes: Set = [
      "class", "viewBox", "role", "aria-label", "d", "x", "y", "cx", "cy", "r", "rx", "width", "height",
      "text-anchor", "stroke-dasharray", "data-values", "data-day",
    ]
    #expect(Set(drawing.elements.flatMap(\.attributes.keys)).isSubset(of: attributes), "seed \(seed)")
    #expect(drawing.elements.first?["role"] == "img" && drawing.elements.first?["aria-label"] != nil)
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func `a chart is well-formed, lies within its box, and has the values that it was given`(seed: UInt64)
    throws
  {
    var random = SplitMix64(state: seed)
    let chart = try Self.chart(&random)
    for size in [Chart.Size.small, .large] {
      let texts = [
        LineChart(chart, isStacked: true).svg(size), LineChart(chart, isStacked: false).svg(size),
        BarChart(chart).svg(size),
        BarChart(chart, line: .init(name: "net", values: [1, nil, 1e14])).svg(size),
      ]
      for (place, text) in texts.enumerated() {
        Self.expectSound(text, seed)
        let shown = Drawing(text).all("g", class: "place").map(\.values)
        guard !shown.isEmpty else { continue }
        #expect(shown.count == chart.days.count)
        for day in chart.days.indices {
          let given = chart.series.map { series -> Double? in
            guard day < series.values.count, let value = series.values[day] else { return nil }
            return value.isFinite && abs(value) <= 1e15 ? value : nil
          }
          #expect(Array(shown[day].prefix(given.count)) == given, "seed \(seed), chart \(place)")
        }
      }
    }
  }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func `funnels, sparklines, heat tables and legends are sound too`(seed: UInt64) throws {
    var random = SplitMix64(state: seed)
    let names = Self.hostile.shuffled(using: &random)
    let values = names.map { _ in Self.value(&random) }
    let funnel = Funnel(
      title: names[0], steps: zip(names, values).map { .init(name: $0, value: $1 ?? .nan) })
    Self.expectSound(funnel.svg(), seed)
    Self.expectSound(
      Sparkline(title: names[1], unit: .ratio, values: values, isLastPartial: seed % 2 == 0).svg, seed)
    let table = HeatTable(
      title: names[2], heads: (names[3], names[4]), ages: names,
      rows: names.map { name in
        .init(
          name: name, size: name,
          cells: values.map { value in value.map { .init(value: $0, tooltip: name, isPartial: false) } })
      })
    #expect(Drawing(table.html).isWellFormed)
    #expect(!table.html.contains("<script"))
    let legend = ChartLegend(
      names.map { .init(name: $0, values: [], detail: $0.isEmpty ? nil : $0) },
      line: .init(name: names[0], values: []))
    #expect(Drawing(legend.html).isWellFormed)
    #expect(!legend.html.contains("<script") && !legend.html.contains("style="))
  }

  @Test func `every text of a hostile name is a text, and nothing else`() {
    let escaped = Self.hostile.joined().escapedForHTML
    for character in ["<", ">", "\"", "'", "\0", "\u{1B}", "\u{202E}"] {
      #expect(!escaped.contains(character))
    }
    let read = Drawing("<svg><title>\(escaped)</title></svg>")
    #expect(read.tooltips.first?.contains("<script>alert(1)</script>") == true)
  }

  @Test(arguments: 0..<200 as Range<UInt64>)
  func `a scale has few ticks at round numbers, and contains 0 and all values`(seed: UInt64) throws {
    var random = SplitMix64(state: seed)
    let magnitude = pow(10, Double.random(in: -9...15, using: &random))
    let values = (0..<5).map { _ in Double.random(in: -1...1, using: &random) * magnitude }
    let scale = ChartScale(of: values)
    #expect(scale.low <= min(0, values.min() ?? 0) && scale.high >= max(0, values.max() ?? 0))
    #expect((2...8).contains(scale.ticks.count))
    #expect(scale.ticks.contains(0))
    let step = scale.ticks[1] - scale.ticks[0]
    let leading = step / pow(10, log10(step).rounded(.down))
    #expect([1, 2, 2.5, 5, 10].contains { abs(leading - $0) < 1e-6 }, "\(step)")
  }

  @Test func `a day has the serial number and the weekday that Foundation's calendar has`() throws {
    var date = try #require(Self.date("1896-01-01"))
    let end = try #require(Self.date("2105-01-01"))
    while date < end {
      let day = try #require(ChartDay(Self.text(date)))
      #expect(day.serial == Int((date.timeIntervalSince1970 / 86_400).rounded()))
      date += 86_400 * 13
    }
    for text in [
      "2026-02-29", "2026-13-01", "2026-00-10", "2026-1-01", "2026-01-32", "2026-01-0x", "", "２０２６-01-01",
    ] {
      #expect(ChartDay(text) == nil, "\(text)")
    }
    #expect(ChartDay("2024-02-29")?.long == "29 Feb 2024")
  }

  @Test func `numbers are grouped, rounded and shortened`() {
    #expect(ChartUnit.count.text(1_234_567) == "1,234,567")
    #expect(ChartUnit.money(currency: "USD", digits: 2).text(-1234.5) == "\u{2212}1,234.50 USD")
    #expect(ChartUnit.money(currency: "JPY", digits: 0).text(999.6) == "1,000 JPY")
    #expect(ChartUnit.money(currency: "KWD", digits: 3).text(0.0005) == "0.001 KWD")
    #expect(ChartUnit.ratio.text(0.12345) == "12.3 %")
    #expect(ChartUnit.count.text(-0.01) == "0.0")
    #expect(ChartUnit.count.text(.nan) == "–")
    #expect(
      [0, 0.25, 950, 1_500, 2_000_000, 3.5e9, -1_000].map(ChartNumber.compact)
        == ["0", "0.25", "950", "1.5k", "2M", "3.5G", "\u{2212}1k"])
  }

  private static func date(_ text: String) -> Date? {
    try? Date(text + "T00:00:00Z", strategy: .iso8601)
  }

  private static func text(_ date: Date) -> String { String(date.formatted(.iso8601).prefix(10)) }
}

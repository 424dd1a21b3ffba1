/// The axes of a chart over time, and the places of its values.
struct ChartFrame: Sendable {
  let chart: Chart
  let size: Chart.Size
  let scale: ChartScale
  /// Whether values fill a place, as bars do; a line's values are points at their days.
  let fillsPlaces: Bool

  private let left: Double
  private let right: Double
  private let top: Double
  private let bottom: Double

  /// About the width of a character of 11 px.
  private static let characterWidth = 6.2

  init(_ chart: Chart, size: Chart.Size, scale: ChartScale, fillsPlaces: Bool) {
    self.chart = chart
    self.size = size
    self.scale = scale
    self.fillsPlaces = fillsPlaces
    let longest = scale.ticks.map { chart.unit.tick($0).count }.max() ?? 1
    left = Double(longest) * Self.characterWidth + 10
    right = size.width - 10
    top = chart.marks.isEmpty ? 10 : 20
    bottom = size.height - 24
  }

  /// The width of one place; of points the mean distance.
  var placeWidth: Double {
    (right - left) / Double(max(fillsPlaces ? chart.days.count : chart.days.count - 1, 1))
  }

  /// The x of a line's point, or of the middle of a bar.
  func x(at place: Int) -> Double {
    if fillsPlaces { return left + (Double(place) + 0.5) * placeWidth }
    guard let first = chart.days.first?.serial, let last = chart.days.last?.serial, last > first else {
      return (left + right) / 2
    }
    return left + (right - left) * Double(chart.days[place].serial - first) / Double(last - first)
  }

  func y(of value: Double) -> Double { bottom - scale.part(of: value) * (bottom - top) }

  /// The x of a day between the places, or `nil` outside of them.
  func x(of day: ChartDay) -> Double? {
    let serial = day.serial
    guard let place = chart.days.lastIndex(where: { $0.serial <= serial }) else { return nil }
    let start = fillsPlaces ? left + Double(place) * placeWidth : x(at: place)
    var width = placeWidth
    let length: Int
    if place + 1 < chart.days.count {
      length = chart.days[place + 1].serial - chart.days[place].serial
      if !fillsPlaces { width = x(at: place + 1) - start }
    } else {
      length = [ChartGrain.day: 1, .week: 7, .month: 31][chart.grain] ?? 1
      guard serial < chart.days[place].serial + length else { return nil }
    }
    let part = Double(serial - chart.days[place].serial) / Double(max(length, 1))
    return min(start + part * width, right)
  }

  /// The whole drawing: axes, what `body` draws, marks, and an area with a tooltip for each place.
  /// - Parameter totals: the total of each place for its tooltip; empty if the series have none.
  func draw(label: String, totals: [Double], _ body: (inout SVGText) -> Void) -> String {
    var text = SVGText()
    text.element(
      "svg",
      [
        "class": "chart", "viewBox": "0 0 \(SVGText.number(size.width)) \(SVGText.number(size.height))",
        "role": "img", "aria-label": label,
      ]
    ) { text in
      drawAxes(&text)
      if chart.isEmpty {
        text.element(
          "text",
          [
            "class": "empty", "x": SVGText.number((left + right) / 2),
            "y": SVGText.number((top + bottom) / 2), "text-anchor": "middle",
          ], text: "no figures in this period")
        return
      }
      body(&text)
      drawMarks(&text)
      for place in chart.days.indices { drawPlace(place, total: totals.isEmpty ? nil : totals[place], &text) }
    }
    return text.text
  }

  private func drawAxes(_ text: inout SVGText) {
    for tick in scale.ticks {
      let height = y(of: tick)
      text.element(
        "path",
        [
          "class": tick == 0 ? "zero" : "grid",
          "d": SVGPoint.line([SVGPoint(x: left, y: height), SVGPoint(x: right, y: height)]),
        ])
      text.element(
        "text",
        [
          "class": "tick", "x": SVGText.number(left - 5), "y": SVGText.number(height + 3.5),
          "text-anchor": "end",
        ], text: chart.unit.tick(tick))
    }
    for place in labelledPlaces {
      let label = label(at: place)
      // A label at an end of the axis stays within the drawing.
      let half = Double(label.count) * Self.characterWidth / 2
      let place = min(max(x(at: place), half + 1), size.width - half - 1)
      text.element(
        "text",
        [
          "class": "tick", "x": SVGText.number(place), "y": SVGText.number(size.height - 7),
          "text-anchor": "middle",
        ], text: label)
    }
  }

  /// The places that have a label under the axis: as many as fit, at equal distances. A month has one label at most.
  private var labelledPlaces: [Int] {
    guard !chart.days.isEmpty else { return [] }
    let places = chart.days.indices.filter { $0 == 0 || !isLong || label(at: $0) != label(at: $0 - 1) }
    let needed = Double(label(at: 0).count + 2) * Self.characterWidth
    let fitting = max(Int((right - left) / needed), 1)
    let distance = max((places.count + fitting - 1) / fitting, 1)
    var labelled: [Int] = []
    for number in stride(from: 0, to: places.count, by: distance) {
      // A first month of a few days leaves no room for the next label.
      let room = labelled.last.map { x(at: places[number]) - x(at: $0) } ?? .infinity
      if room >= needed - Self.characterWidth { labelled.append(places[number]) }
    }
    return labelled
  }

  /// Whether the labels under the axis are months.
  private var isLong: Bool {
    let span = (chart.days.last?.serial ?? 0) - (chart.days.first?.serial ?? 0)
    return chart.grain == .month || span > 200
  }

  /// The text under a place: of a long time the month, else the day.
  private func label(at place: Int) -> String {
    isLong ? chart.days[place].monthAndYear : chart.days[place].short
  }

  private func drawMarks(_ text: inout SVGText) {
    for mark in chart.marks {
      guard let x = x(of: mark.day) else { continue }
      text.element("g", ["class": "mark", "data-day": mark.day.long]) { text in
        text.element("title", text: "\(mark.day.long)\n\(mark.text)")
        text.element(
          "path",
          [
            "d": SVGPoint.line([SVGPoint(x: x, y: top - 6), SVGPoint(x: x, y: bottom)]),
            "stroke-dasharray": "2 3",
          ])
        text.element(
          "circle", ["cx": SVGText.number(x), "cy": SVGText.number(top - 6), "r": "4"])
      }
    }
  }

  private func drawPlace(_ place: Int, total: Double?, _ text: inout SVGText) {
    // Halfway to the places beside it.
    let middle = x(at: place)
    let former = place > 0 ? x(at: place - 1) : middle - placeWidth
    let next = place + 1 < chart.days.count ? x(at: place + 1) : middle + placeWidth
    let start = max((former + middle) / 2, left - 4)
    let end = min((middle + next) / 2, right + 4)
    text.element("g", ["class": "place", "data-values": chart.data(at: place)]) { text in
      text.element("title", text: chart.tooltip(at: place, total: total))
      text.element(
        "rect",
        [
          "x": SVGText.number(start), "y": SVGText.number(top),
          "width": SVGText.number(max(end - start, 0.5)),
          "height": SVGText.number(bottom - top),
        ])
    }
  }

  /// What a screen reader says: the title, the period, and the last value of each series.
  func label(total: Double?) -> String {
    guard let first = chart.days.first, let last = chart.days.last, !chart.isEmpty else {
      return "\(chart.title): no figures in this period"
    }
    var ends: [String] = []
    for index in chart.series.indices.prefix(8) {
      if let value = chart.value(of: index, at: chart.days.count - 1) {
        ends.append("\(chart.series[index].name) \(chart.unit.text(value))")
      }
    }
    if let total, chart.series.count > 1 { ends.append("total \(chart.unit.text(total))") }
    let state = chart.isLastPartial ? "at the end, which is not over" : "at the end"
    return
      "\(chart.title), \(chart.grain.long(first)) to \(chart.grain.long(last)); \(state): \(ends.joined(separator: ", "))"
  }
}

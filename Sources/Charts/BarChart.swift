/// Bars over time: positive values on top of each other above 0, negative ones below it, and a line of another figure.
package struct BarChart: Sendable {
  package var chart: Chart
  /// The line over the bars, such as the net amount.
  package var line: Chart.Series?

  package init(_ chart: Chart, line: Chart.Series? = nil) {
    self.chart = chart
    self.line = line
  }

  /// The chart with the line as its last series, for tooltips and data.
  private var whole: Chart {
    var whole = chart
    if let line { whole.series.append(line) }
    return whole
  }

  /// The drawing as the text of an `<svg>` element.
  package func svg(_ size: Chart.Size) -> String {
    let whole = whole
    var ends: [Double] = []
    for place in chart.days.indices {
      for part in parts(at: place) { ends += [part.from, part.to] }
      if line != nil, let value = whole.value(of: chart.series.count, at: place) { ends.append(value) }
    }
    let frame = ChartFrame(whole, size: size, scale: ChartScale(of: ends), fillsPlaces: true)
    return frame.draw(label: frame.label(total: nil), totals: []) { text in
      let width = max(min(frame.placeWidth * 0.72, 46), 1)
      for place in chart.days.indices {
        for part in parts(at: place) {
          drawBar(part, at: place, width: width, in: frame, &text)
        }
      }
      if line != nil { drawLine(of: whole, in: frame, &text) }
    }
  }

  private struct Part {
    var series: Int
    var from: Double
    var to: Double
  }

  /// The bars of a place, from 0 outwards.
  private func parts(at place: Int) -> [Part] {
    var (above, below) = (0.0, 0.0)
    var parts: [Part] = []
    for index in chart.series.indices {
      guard let value = chart.value(of: index, at: place), value != 0 else { continue }
      if value > 0 {
        parts.append(Part(series: index, from: above, to: above + value))
        above += value
      } else {
        parts.append(Part(series: index, from: below, to: below + value))
        below += value
      }
    }
    return parts
  }

  private func drawBar(
    _ part: Part, at place: Int, width: Double, in frame: ChartFrame, _ text: inout SVGText
  ) {
    let (first, second) = (frame.y(of: part.from), frame.y(of: part.to))
    let isPartial = chart.isLastPartial && place == chart.days.count - 1
    text.element(
      "rect",
      [
        "class": "bar \(chart.colour(part.series))\(isPartial ? " partial" : "")",
        "x": SVGText.number(frame.x(at: place) - width / 2), "y": SVGText.number(min(first, second)),
        "width": SVGText.number(width), "height": SVGText.number(abs(first - second)),
      ])
  }

  private func drawLine(of whole: Chart, in frame: ChartFrame, _ text: inout SVGText) {
    let index = chart.series.count
    let points = chart.days.indices.compactMap { place in
      whole.value(of: index, at: place).map { (place, SVGPoint(x: frame.x(at: place), y: frame.y(of: $0))) }
    }
    let isPartial = chart.isLastPartial && points.last?.0 == chart.days.count - 1
    let solid = (isPartial ? points.dropLast() : points[...]).map(\.1)
    if solid.count > 1 { text.element("path", ["class": "net", "d": SVGPoint.line(solid)]) }
    if isPartial, points.count > 1 {
      text.element(
        "path",
        ["class": "net", "d": SVGPoint.line(points.suffix(2).map(\.1)), "stroke-dasharray": "3 3"])
    }
    for (_, point) in points {
      text.element(
        "circle",
        ["class": "net", "cx": SVGText.number(point.x), "cy": SVGText.number(point.y), "r": "2"])
    }
  }
}

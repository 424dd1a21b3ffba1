/// Lines over time, beside each other or as areas on top of each other.
package struct LineChart: Sendable {
  package var chart: Chart
  /// Whether each series begins where the one below it ends.
  package var isStacked: Bool

  package init(_ chart: Chart, isStacked: Bool) {
    self.chart = chart
    self.isStacked = isStacked
  }

  /// The drawing as the text of an `<svg>` element.
  package func svg(_ size: Chart.Size) -> String {
    let tops = isStacked ? stackedTops : []
    let values =
      isStacked
      ? tops.flatMap { $0 }
      : chart.series.indices.flatMap { index in
        chart.days.indices.compactMap { chart.value(of: index, at: $0) }
      }
    let frame = ChartFrame(chart, size: size, scale: ChartScale(of: values), fillsPlaces: false)
    let totals = isStacked ? chart.days.indices.map(total(at:)) : []
    return frame.draw(label: frame.label(total: totals.last), totals: totals) { text in
      if isStacked {
        drawAreas(tops, in: frame, &text)
      } else {
        for index in chart.series.indices { drawLine(index, in: frame, &text) }
      }
    }
  }

  private func total(at place: Int) -> Double {
    chart.series.indices.reduce(0) { $0 + (chart.value(of: $1, at: place) ?? 0) }
  }

  /// The upper edge of each series at each place. A missing value counts as 0.
  private var stackedTops: [[Double]] {
    var sums = Array(repeating: 0.0, count: chart.days.count)
    return chart.series.indices.map { index in
      for place in sums.indices { sums[place] += chart.value(of: index, at: place) ?? 0 }
      return sums
    }
  }

  private func drawAreas(_ tops: [[Double]], in frame: ChartFrame, _ text: inout SVGText) {
    for index in tops.indices.reversed() {
      let bottoms = index == 0 ? Array(repeating: 0.0, count: chart.days.count) : tops[index - 1]
      for (places, isPartial) in sections(Array(chart.days.indices)) {
        let upper = places.map { SVGPoint(x: frame.x(at: $0), y: frame.y(of: tops[index][$0])) }
        let lower = places.reversed().map { SVGPoint(x: frame.x(at: $0), y: frame.y(of: bottoms[$0])) }
        let state = isPartial ? " partial" : ""
        text.element(
          "path",
          ["class": "area \(chart.colour(index))\(state)", "d": SVGPoint.line(upper + lower) + "Z"])
        drawStroke(upper, index, isPartial, &text)
      }
    }
  }

  private func drawLine(_ index: Int, in frame: ChartFrame, _ text: inout SVGText) {
    for run in runs(of: index) {
      for (places, isPartial) in sections(run) {
        let points = places.compactMap { place in
          chart.value(of: index, at: place).map { SVGPoint(x: frame.x(at: place), y: frame.y(of: $0)) }
        }
        drawStroke(points, index, isPartial, &text)
      }
    }
  }

  /// A line, or a dot for a single point.
  private func drawStroke(_ points: [SVGPoint], _ index: Int, _ isPartial: Bool, _ text: inout SVGText) {
    let colour = chart.colour(index)
    if points.count == 1, let point = points.first {
      text.element(
        "circle",
        [
          "class": "dot \(colour)", "cx": SVGText.number(point.x), "cy": SVGText.number(point.y), "r": "2.5",
        ])
    } else if isPartial {
      text.element(
        "path", ["class": "line \(colour)", "d": SVGPoint.line(points), "stroke-dasharray": "3 3"])
    } else {
      text.element("path", ["class": "line \(colour)", "d": SVGPoint.line(points)])
    }
  }

  /// The places with values that follow each other without a gap.
  private func runs(of index: Int) -> [[Int]] {
    var runs: [[Int]] = []
    for place in chart.days.indices where chart.value(of: index, at: place) != nil {
      if let last = runs.last?.last, last == place - 1 {
        runs[runs.count - 1].append(place)
      } else {
        runs.append([place])
      }
    }
    return runs
  }

  /// Splits places before the last one, if that one is not over.
  private func sections(_ places: [Int]) -> [(places: [Int], isPartial: Bool)] {
    guard chart.isLastPartial, places.last == chart.days.count - 1, places.count > 1 else {
      return places.isEmpty ? [] : [(places, false)]
    }
    let whole = Array(places.dropLast())
    return [(whole, false), (Array(places.suffix(2)), true)]
  }
}

/// The figures of a chart over time.
package struct Chart: Sendable {
  /// One line, area or part of the bars.
  package struct Series: Sendable {
    package var name: String
    /// One value for each place of the axis; `nil` where there is none.
    package var values: [Double?]
    /// The number of the colour; `nil` for that of the place in the chart.
    package var colour: Int?
    /// What the name is short for, such as a whole id.
    package var detail: String?

    package init(name: String, values: [Double?], colour: Int? = nil, detail: String? = nil) {
      self.name = name
      self.values = values
      self.colour = colour
      self.detail = detail
    }
  }

  /// A vertical line at a day, such as a change of prices.
  package struct Mark: Sendable {
    package var day: ChartDay
    package var text: String

    package init(day: ChartDay, text: String) {
      self.day = day
      self.text = text
    }
  }

  /// What the chart shows, for screen readers.
  package var title: String
  package var unit: ChartUnit
  package var grain: ChartGrain
  /// The day on which each place begins, in ascending order.
  package var days: [ChartDay]
  package var series: [Series]
  /// Whether the last place is not over, so that its figures will change.
  package var isLastPartial: Bool
  package var marks: [Mark]

  package init(
    title: String, unit: ChartUnit, grain: ChartGrain, days: [ChartDay], series: [Series],
    isLastPartial: Bool = false, marks: [Mark] = []
  ) {
    self.title = title
    self.unit = unit
    self.grain = grain
    self.days = days
    self.series = series
    self.isLastPartial = isLastPartial
    self.marks = marks
  }

  /// The width and height of a drawing.
  package struct Size: Sendable {
    package var width: Double
    package var height: Double

    package init(width: Double, height: Double) {
      self.width = width
      self.height = height
    }

    /// One of several charts beside each other, or on a narrow screen.
    package static let small = Size(width: 420, height: 240)
    /// A chart of its own on a wide screen.
    package static let large = Size(width: 860, height: 340)
  }

  /// A value that can be drawn. A value that is not finite or beyond ±10^15 is not drawn.
  func value(of series: Int, at place: Int) -> Double? {
    let values = self.series[series].values
    guard place < values.count, let value = values[place], value.isFinite, abs(value) <= ChartNumber.limit
    else { return nil }
    return value
  }

  var isEmpty: Bool {
    !series.indices.contains { index in days.indices.contains { value(of: index, at: $0) != nil } }
  }

  /// The text of a place: the date and each value.
  func tooltip(at place: Int, total: Double?) -> String {
    var lines = [
      grain.long(days[place]) + (isLastPartial && place == days.count - 1 ? " (not over)" : "")
    ]
    for index in series.indices {
      if let value = value(of: index, at: place) {
        lines.append("\(series[index].name): \(unit.text(value))")
      }
    }
    if let total, series.count > 1 { lines.append("total: \(unit.text(total))") }
    return lines.joined(separator: "\n")
  }

  /// The values of a place as data: JavaScript's numbers, separated by spaces, with `-` where there is none.
  func data(at place: Int) -> String {
    series.indices.map { value(of: $0, at: place).map { "\($0)" } ?? "-" }.joined(separator: " ")
  }

  /// The class of a series' colour.
  func colour(_ place: Int) -> String { series[place].colour(at: place) }
}

extension Chart.Series {
  /// The class of the colour at a place of the chart. Colours repeat after twelve.
  fileprivate func colour(at place: Int) -> String { "c\((colour ?? place) % 12)" }
}

/// The names of the series beside their colours, as an HTML list.
package struct ChartLegend: Sendable {
  package var series: [Chart.Series]
  /// The line over bars.
  package var line: Chart.Series?

  package init(_ series: [Chart.Series], line: Chart.Series? = nil) {
    self.series = series
    self.line = line
  }

  package var html: String {
    var text = SVGText()
    text.element("ul", ["class": "legend"]) { text in
      for (place, series) in series.enumerated() { draw(series, colour: series.colour(at: place), &text) }
      if let line { draw(line, colour: nil, &text) }
    }
    return text.text
  }

  private func draw(_ series: Chart.Series, colour: String?, _ text: inout SVGText) {
    text.element("li", [:]) { text in
      text.element(
        "svg",
        ["class": "key", "viewBox": "0 0 12 12", "width": "12", "height": "12", "aria-hidden": "true"]
      ) { text in
        if let colour {
          text.element("rect", ["class": "bar \(colour)", "width": "12", "height": "12", "rx": "2"])
        } else {
          text.element("path", ["class": "net", "d": "M0 6L12 6"])
        }
      }
      if let detail = series.detail {
        text.element("span", ["title": detail], text: series.name)
      } else {
        text.element("span", text: series.name)
      }
    }
  }
}

/// Steps that fewer and fewer reach, as horizontal bars with the part of the step before and of the first one.
package struct Funnel: Sendable {
  /// One step.
  package struct Step: Sendable {
    package var name: String
    package var value: Double

    package init(name: String, value: Double) {
      self.name = name
      self.value = value
    }
  }

  package var title: String
  package var unit: ChartUnit
  package var steps: [Step]

  package init(title: String, unit: ChartUnit = .count, steps: [Step]) {
    self.title = title
    self.unit = unit
    self.steps = steps
  }

  private static let rowHeight = 46.0

  private func value(_ index: Int) -> Double {
    let value = steps[index].value
    return value.isFinite ? min(max(value, 0), ChartNumber.limit) : 0
  }

  /// The part that a step is of another one: ` (25.0 % of visits)`; empty if the other one is 0.
  private func share(_ index: Int) -> String {
    guard index > 0, value(index - 1) > 0 else { return "" }
    return " · \(ChartUnit.ratio.text(value(index) / value(index - 1))) of \(steps[index - 1].name)"
  }

  private func text(_ index: Int) -> String { "\(unit.text(value(index)))\(share(index))" }

  /// The drawing as the text of an `<svg>` element.
  package func svg(width: Double = Chart.Size.small.width) -> String {
    let largest = steps.indices.map(value).max() ?? 0
    let height = Double(max(steps.count, 1)) * Self.rowHeight + 6
    let said = steps.indices.map { "\(steps[$0].name) \(text($0))" }.joined(separator: ", ")
    var svg = SVGText()
    svg.element(
      "svg",
      [
        "class": "chart funnel", "viewBox": "0 0 \(SVGText.number(width)) \(SVGText.number(height))",
        "role": "img",
        "aria-label": largest > 0 ? "\(title): \(said)" : "\(title): no figures in this period",
      ]
    ) { svg in
      guard largest > 0 else {
        svg.element(
          "text",
          [
            "class": "empty", "x": SVGText.number(width / 2), "y": SVGText.number(height / 2),
            "text-anchor": "middle",
          ], text: "no figures in this period")
        return
      }
      for index in steps.indices {
        let top = Double(index) * Self.rowHeight
        svg.element("g", ["class": "step", "data-values": "\(value(index))"]) { svg in
          svg.element("title", text: "\(steps[index].name): \(text(index))")
          svg.element(
            "text", ["class": "name", "x": "4", "y": SVGText.number(top + 14)], text: steps[index].name)
          svg.element(
            "text",
            [
              "class": "tick", "x": SVGText.number(width - 4), "y": SVGText.number(top + 14),
              "text-anchor": "end",
            ],
            text: text(index))
          svg.element(
            "rect",
            [
              "class": "track", "x": "4", "y": SVGText.number(top + 20), "width": SVGText.number(width - 8),
              "height": "18", "rx": "3",
            ])
          svg.element(
            "rect",
            [
              "class": "bar c0", "x": "4", "y": SVGText.number(top + 20),
              "width": SVGText.number(max((width - 8) * value(index) / largest, value(index) > 0 ? 2 : 0)),
              "height": "18", "rx": "3",
            ])
        }
      }
    }
    return svg.text
  }
}

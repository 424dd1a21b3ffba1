/// A small line without axes, as wide as a few words.
package struct Sparkline: Sendable {
  package var title: String
  package var unit: ChartUnit
  package var values: [Double?]
  /// Whether the last value will change.
  package var isLastPartial: Bool

  package init(title: String, unit: ChartUnit, values: [Double?], isLastPartial: Bool) {
    self.title = title
    self.unit = unit
    self.values = values
    self.isLastPartial = isLastPartial
  }

  private static let (width, height) = (120.0, 32.0)

  /// The drawing as the text of an `<svg>` element.
  package var svg: String {
    let drawn = values.enumerated().compactMap { place, value -> (place: Int, value: Double)? in
      guard let value, value.isFinite, abs(value) <= ChartNumber.limit else { return nil }
      return (place, value)
    }
    let low = drawn.map(\.value).min() ?? 0
    let high = drawn.map(\.value).max() ?? 0
    let points = drawn.map { place, value in
      SVGPoint(
        x: 4 + (Self.width - 8) * Double(place) / Double(max(values.count - 1, 1)),
        y: high > low ? Self.height - 4 - (Self.height - 8) * ((value - low) / (high - low)) : Self.height / 2
      )
    }
    var said = "no figures"
    if let first = drawn.first, let last = drawn.last {
      said = "from \(unit.text(first.value)) to \(unit.text(last.value))"
    }
    var text = SVGText()
    text.element(
      "svg",
      [
        "class": "spark", "viewBox": "0 0 \(SVGText.number(Self.width)) \(SVGText.number(Self.height))",
        "role": "img", "aria-label": "\(title): \(said)",
        "data-values": values.map { $0.map { "\($0)" } ?? "-" }.joined(separator: " "),
      ]
    ) { text in
      let isPartial = isLastPartial && drawn.last?.place == values.count - 1
      let solid = isPartial ? points.dropLast() : points[...]
      if solid.count > 1 { text.element("path", ["class": "line c0", "d": SVGPoint.line(solid)]) }
      if isPartial, points.count > 1 {
        text.element(
          "path",
          ["class": "line c0", "d": SVGPoint.line(points.suffix(2)), "stroke-dasharray": "2 2"])
      }
      if let last = points.last {
        text.element(
          "circle",
          ["class": "dot c0", "cx": SVGText.number(last.x), "cy": SVGText.number(last.y), "r": "2.5"])
      }
    }
    return text.text
  }
}

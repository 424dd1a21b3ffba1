import Text

/// The text of an SVG element. Every text and attribute value is escaped.
struct SVGText: Sendable {
  private(set) var text = ""

  /// Appends an element without contents.
  mutating func element(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>) {
    open(name, attributes, isEmpty: true)
  }

  /// Appends an element with a text.
  mutating func element(
    _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:], text content: String
  ) {
    open(name, attributes, isEmpty: false)
    text += content.escapedForHTML
    close(name)
  }

  /// Appends an element whose contents `body` appends.
  mutating func element(
    _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>,
    _ body: (inout SVGText) -> Void
  ) {
    open(name, attributes, isEmpty: false)
    body(&self)
    close(name)
  }

  private mutating func open(
    _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>, isEmpty: Bool
  ) {
    text += "<\(name)"
    for (key, value) in attributes { text += " \(key)=\"\(value.escapedForHTML)\"" }
    text += isEmpty ? "/>" : ">"
  }

  private mutating func close(_ name: StaticString) { text += "</\(name)>" }

  /// A coordinate with one decimal at most.
  static func number(_ value: Double) -> String {
    guard value.isFinite, abs(value) < 1e6 else { return "0" }
    let tenths = Int((value * 10).rounded())
    let (whole, rest) = abs(tenths).quotientAndRemainder(dividingBy: 10)
    return (tenths < 0 ? "-" : "") + "\(whole)" + (rest == 0 ? "" : ".\(rest)")
  }
}

/// A point of a drawing, and paths through such points.
struct SVGPoint: Sendable {
  var x: Double
  var y: Double

  var text: String { "\(SVGText.number(x)) \(SVGText.number(y))" }

  /// Path data of a line through points.
  static func line(_ points: some Sequence<SVGPoint>) -> String {
    points.enumerated().map { ($0 == 0 ? "M" : "L") + $1.text }.joined()
  }
}

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
    text += Self.escaped(content)
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
    for (key, value) in attributes { text += " \(key)=\"\(Self.escaped(value))\"" }
    text += isEmpty ? "/>" : ">"
  }

  private mutating func close(_ name: StaticString) { text += "</\(name)>" }

  /// A text for contents and quoted attributes of HTML and SVG. A control character, which XML does not allow, and a character
  /// that changes the writing direction become U+FFFD; a line feed stays.
  static func escaped(_ text: String) -> String {
    var escaped = ""
    escaped.reserveCapacity(text.utf8.count)
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      case "\n": escaped += "\n"
      case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{200E}"..."\u{200F}", "\u{202A}"..."\u{202E}",
        "\u{2066}"..."\u{2069}":
        escaped += "\u{FFFD}"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

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

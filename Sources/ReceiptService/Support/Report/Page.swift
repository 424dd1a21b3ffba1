/// Lines of at most 80 columns, in which nothing but text reaches the terminal: names come from customers' devices.
struct Page {
  private static let width = 80
  private var lines: [String] = []

  var isEmpty: Bool { lines.isEmpty }

  var text: String { lines.joined(separator: "\n") }

  /// An empty line.
  mutating func skip() { lines.append("") }

  mutating func heading(_ text: String) { lines.append(text) }

  /// A name and its value, in two columns.
  mutating func member(_ name: String, _ value: String) {
    let label = name + String(repeating: " ", count: max(1, 13 - name.count))
    append(label + value, indent: 0, hanging: 13)
  }

  /// - Parameters:
  ///   - indent: of the first line.
  ///   - hanging: of those that follow, beyond that.
  mutating func line(_ text: String, indent: Int = 2, hanging: Int = 2) {
    append(String(repeating: " ", count: indent) + text, indent: indent, hanging: indent + hanging)
  }

  /// Breaks at spaces; a word that is longer than a line is cut.
  private mutating func append(_ text: String, indent: Int, hanging: Int) {
    var rest = text.shown[...]
    while rest.count > Self.width {
      let limit = rest.index(rest.startIndex, offsetBy: Self.width)
      // Not within the indentation, or nothing would be left of the line.
      let earliest = rest.firstIndex { $0 != " " } ?? rest.startIndex
      let space = rest[earliest..<limit].lastIndex(of: " ")
      let end = space.map { $0 > rest.index(earliest, offsetBy: hanging / 2) ? $0 : limit } ?? limit
      lines.append(String(rest[..<end]))
      let next = rest[end...].drop { $0 == " " }
      rest = (String(repeating: " ", count: hanging) + next)[...]
    }
    lines.append(String(rest))
  }
}

extension String {
  /// Without what moves a cursor or turns the direction of writing.
  fileprivate var shown: String {
    String(
      String.UnicodeScalarView(
        unicodeScalars.map { scalar in
          switch scalar.properties.generalCategory {
          case .control, .format, .lineSeparator, .paragraphSeparator: "?"
          default: scalar
          }
        }))
  }
}

/// Text for a terminal: lines of at most 80 columns without control characters, because names come from clients.
package struct TerminalText {
  private static let width = 80
  private var lines: [String] = []

  package init() {}

  package var isEmpty: Bool { lines.isEmpty }

  package var text: String { lines.joined(separator: "\n") }

  /// Appends an empty line.
  package mutating func skip() { lines.append("") }

  package mutating func heading(_ text: String) { lines.append(text) }

  /// Appends a name and its value, in two columns.
  package mutating func member(_ name: String, _ value: String) {
    let label = name + String(repeating: " ", count: max(1, 13 - name.count))
    append(label + value, indent: 0, hanging: 13)
  }

  /// Appends a paragraph.
  /// - Parameters:
  ///   - indent: the indentation of the first line.
  ///   - hanging: the further indentation of the following lines.
  package mutating func line(_ text: String, indent: Int = 2, hanging: Int = 2) {
    append(String(repeating: " ", count: indent) + text, indent: indent, hanging: indent + hanging)
  }

  /// Breaks lines at spaces; a word longer than a line is split.
  private mutating func append(_ text: String, indent: Int, hanging: Int) {
    var rest = text.shown[...]
    while rest.count > Self.width {
      let limit = rest.index(rest.startIndex, offsetBy: Self.width)
      // Do not break within the indentation: the line would be empty.
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
  /// The lines of this text with at most 80 columns. The rest of a longer line is indented by four, beyond its own
  /// indent. A line that fits stays as it is.
  package func wrappedForTerminal() -> String {
    var output = TerminalText()
    for line in split(separator: "\n", omittingEmptySubsequences: false) {
      let indent = line.prefix { $0 == " " }.count
      output.line(String(line.dropFirst(indent)), indent: indent, hanging: 4)
    }
    return output.text
  }
}

extension Unicode.Scalar {
  /// Whether the character moves the cursor, changes the writing direction, breaks a line, or shows nothing: the
  /// categories Cc, Cf, Zl and Zp.
  package var isInvisible: Bool {
    guard value >= 0x80 else { return value < 0x20 || value == 0x7F }
    return switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }
}

extension String {
  /// Whether the text has characters that a terminal obeys or does not show.
  package var hasInvisibleCharacters: Bool { unicodeScalars.contains(where: \.isInvisible) }

  /// Whether the text has characters of the category Cc, such as those that begin a terminal's commands.
  package var hasControlCharacters: Bool {
    unicodeScalars.contains { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }
  }

  /// Whether the text begins or ends with a character of the Unicode property `White_Space`, such as U+00A0.
  package var hasOuterWhiteSpace: Bool {
    [unicodeScalars.first, unicodeScalars.last].contains { $0?.properties.isWhitespace ?? false }
  }

  /// The text with `?` for characters that a terminal obeys or does not show, because clients choose names and ids.
  package var shown: String {
    guard hasInvisibleCharacters else { return self }
    return String(UnicodeScalarView(unicodeScalars.map { $0.isInvisible ? "?" : $0 }))
  }

  /// The text for contents and quoted attributes of HTML and SVG, with `?` for characters that show nothing or change
  /// the writing direction. A line feed stays.
  ///
  /// It goes scalar by scalar: a quote with a combining character behind it is one `Character`, and must be escaped
  /// too.
  package var escapedForHTML: String {
    var escaped = ""
    escaped.reserveCapacity(utf8.count)
    for scalar in unicodeScalars {
      switch scalar {
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "&": escaped += "&amp;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      case "\n": escaped += "\n"
      case _ where scalar.isInvisible: escaped += "?"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  /// The text with U+0000 replaced: JSON allows it, PostgreSQL's `text` does not.
  package var storable: String { utf8.contains(0) ? replacing("\0", with: "\u{FFFD}") : self }
}

extension Unicode.Scalar {
  /// Whether the character moves the cursor, changes the writing direction, breaks a line, or shows nothing: the categories
  /// Cc, Cf, Zl and Zp.
  var isInvisible: Bool {
    guard value >= 0x80 else { return value < 0x20 || value == 0x7F }
    return switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }
}

extension String {
  /// Whether the text has characters that a terminal obeys or does not show.
  var hasInvisibleCharacters: Bool { unicodeScalars.contains(where: \.isInvisible) }

  /// Whether the text has characters of the category Cc, such as those that begin a terminal's commands.
  var hasControlCharacters: Bool {
    unicodeScalars.contains { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }
  }

  /// Whether the text begins or ends with a character of the Unicode property `White_Space`, such as U+00A0.
  var hasOuterWhiteSpace: Bool {
    [unicodeScalars.first, unicodeScalars.last].contains { $0?.properties.isWhitespace ?? false }
  }

  /// The text with `?` for characters that a terminal obeys or does not show, because clients choose names and ids.
  public var shown: String {
    guard hasInvisibleCharacters else { return self }
    return String(UnicodeScalarView(unicodeScalars.map { $0.isInvisible ? "?" : $0 }))
  }
}

/// The ranges of the name and the value in one line of a header or trailer section (RFC 9112 §5).
struct FieldLine {
  /// The end of the name.
  let nameEnd: Int
  /// The value, without the white space around it.
  let value: Range<Int>
  /// Whether the value is ASCII.
  let isASCII: Bool

  /// - Parameter line: without its CR LF, and not empty.
  /// - Throws: 400 unless the line is a token, a colon directly after it, and visible characters. A continuation line
  ///   (obs-fold) begins with white space, so it is refused too.
  init(parsing line: Span<UInt8>) throws(Problem) {
    var index = 0
    while index < line.count, ASCII.isTokenCharacter(line[index]) { index += 1 }
    guard index > 0, index < line.count, line[index] == ASCII.colon else {
      throw .invalidRequest("A header field must have a name of token characters, directly before its colon.")
    }
    nameEnd = index
    index += 1
    while index < line.count, Self.isBlank(line[index]) { index += 1 }
    let start = index
    var end = start
    var union: UInt8 = 0
    while index < line.count {
      guard ASCII.isFieldValueCharacter(line[index]) else {
        throw .invalidRequest("A header field's value holds a control character.")
      }
      if !Self.isBlank(line[index]) { end = index + 1 }
      union |= line[index]
      index += 1
    }
    value = start..<end
    isASCII = union < 0x80
  }

  private static func isBlank(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == ASCII.tab }
}

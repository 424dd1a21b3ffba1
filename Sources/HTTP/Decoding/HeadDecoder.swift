/// Turns bytes into request heads, one line at a time.
///
/// It is fed the same buffer again with more at its end until the head is whole; what it has understood
/// it does not look at again. Whatever the pieces in which bytes arrive, the outcome is the same.
struct HeadDecoder {
  private let limits: HTTPLimits
  private var lines = LineReader()
  private var requestLine = RequestLine()
  private var hasRequestLine = false
  private var framing = FramingFields()
  private var fieldCount = 0
  /// Bytes of the head in lines that are done, what stands before the request line included.
  private var length = 0
  /// Where the request line and the fields begin.
  private var start = 0
  private var fieldsStart = 0

  init(limits: HTTPLimits) {
    self.limits = limits
  }

  /// Takes a head off `input` from `position` on, once its empty line is there. The decoder is then ready for
  /// the next one.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> RequestHead? {
    while position + length < input.count {
      let lineStart = position + length
      if !hasRequestLine { try checkBeginning(input[lineStart]) }
      let found = lines.line(in: input, at: lineStart)
      let lineLength = found.length
      try checkLength(ofLine: lineLength)
      guard try found.isWhole() else { return nil }
      let line = input.extracting(lineStart..<(lineStart + lineLength))
      if hasRequestLine, line.isEmpty {
        let head = try framing.head(
          requestLine, bytes: Array(copying: input.extracting((position + start)..<lineStart)),
          fields: (fieldsStart - start)..<(length - start))
        position = lineStart + 2
        self = HeadDecoder(limits: limits)
        return head
      }
      try take(line)
      length += lineLength + 2
      if fieldsStart == 0 { if hasRequestLine { fieldsStart = length } else { start = length } }
    }
    return nil
  }

  private mutating func take(_ line: Span<UInt8>) throws(Problem) {
    if hasRequestLine {
      try takeField(line)
    } else if !line.isEmpty || start > 0 {
      requestLine = try RequestLine(parsing: line)
      hasRequestLine = true
    }
    // RFC 9112 §2.2: one empty line before a request is forgiven, for clients of old that end a body with
    // one too many.
  }

  private mutating func takeField(_ line: Span<UInt8>) throws(Problem) {
    fieldCount += 1
    guard fieldCount <= limits.fields else {
      throw .headersTooLarge("A request may have at most \(limits.fields) header fields.")
    }
    let field = try FieldLine(parsing: line)
    try framing.take(
      name: line.extracting(..<field.nameEnd), value: line.extracting(field.value),
      at: field.value.moved(by: length - start))
  }

  /// What cannot begin a request, such as the first byte of TLS, is refused before its line is whole: its
  /// end may never come.
  private func checkBeginning(_ byte: UInt8) throws(Problem) {
    guard ASCII.isTokenCharacter(byte) || byte == ASCII.carriageReturn else {
      throw .invalidRequest("This is not the beginning of an HTTP request.")
    }
  }

  private func checkLength(ofLine lineLength: Int) throws(Problem) {
    if !hasRequestLine, lineLength > limits.requestLine { throw .uriTooLong(maximum: limits.requestLine) }
    if length + lineLength > limits.head {
      throw .headersTooLarge("A request's head may have at most \(limits.head) bytes.")
    }
  }
}

/// Decodes request heads, one line at a time.
///
/// The caller passes the same buffer, with more bytes at its end, until the head is complete. Decoded lines are not read
/// again. The result does not depend on how the bytes are split.
struct HeadDecoder {
  private let limits: HTTPLimits
  private var lines = LineReader()
  private var requestLine = RequestLine()
  private var hasRequestLine = false
  private var framing = FramingFields()
  private var fieldCount = 0
  /// The length of the decoded lines, with an empty line before the request line.
  private var length = 0
  /// The offsets of the request line and of the fields.
  private var start = 0
  private var fieldsStart = 0

  init(limits: HTTPLimits) {
    self.limits = limits
  }

  /// Decodes a head that starts at `position`, and moves `position` behind it.
  ///
  /// - Returns: nil until the head's empty line has arrived. Afterwards the decoder is ready for the next head.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> RequestHead? {
    while position + length < input.count {
      let lineStart = position + length
      if !hasRequestLine { try checkBeginning(input[lineStart]) }
      let found = lines.line(in: input, at: lineStart)
      let lineLength = found.length
      try checkLength(ofLine: lineLength)
      guard try found.isComplete() else { return nil }
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
    // RFC 9112 §2.2: one empty line before a request is ignored, because old clients send one after a body.
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

  /// Refuses a first byte that no request has, such as that of a TLS handshake, before the end of the line: it may never
  /// come.
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

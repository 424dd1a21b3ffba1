import HTTPTypes

/// Turns bytes into request heads, one line at a time.
///
/// It is fed the same buffer again with more at its end until the head is whole; what it has understood
/// it does not look at again. Whatever the pieces in which bytes arrive, the outcome is the same.
struct HeadDecoder {
  private let limits: HTTPLimits
  private var lines = LineReader()
  private var requestLine = RequestLine()
  private var hasRequestLine = false
  private var fields = HTTPFields()
  private var framing = FramingFields()
  /// Bytes of the head in lines that are done.
  private var length = 0
  private var hasSkippedEmptyLine = false

  init(limits: HTTPLimits) {
    self.limits = limits
  }

  /// Takes lines off `input` from `position` on, and returns the head once its empty line was there. The
  /// decoder is then ready for the next one.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> RequestHead? {
    while position < input.count {
      if !hasRequestLine { try checkBeginning(input[position]) }
      guard let lineLength = try lines.lengthOfLine(in: input, at: position) else {
        try checkLength(ofLine: input.count - position)
        return nil
      }
      try checkLength(ofLine: lineLength)
      let line = input.extracting(position..<(position + lineLength))
      length += lineLength + 2
      position += lineLength + 2
      if let head = try take(line) {
        self = HeadDecoder(limits: limits)
        return head
      }
    }
    return nil
  }

  private mutating func take(_ line: Span<UInt8>) throws(Problem) -> RequestHead? {
    guard hasRequestLine else {
      if line.isEmpty, !hasSkippedEmptyLine {
        // RFC 9112 §2.2: one empty line before a request is forgiven, for clients of old that end a body
        // with one too many.
        hasSkippedEmptyLine = true
      } else {
        requestLine = try RequestLine(parsing: line)
        hasRequestLine = true
      }
      return nil
    }
    guard line.isEmpty else {
      try takeField(line)
      return nil
    }
    return try framing.head(requestLine, fields: fields)
  }

  private mutating func takeField(_ line: Span<UInt8>) throws(Problem) {
    guard fields.count < limits.fields else {
      throw .headersTooLarge("A request may have at most \(limits.fields) header fields.")
    }
    let field = try FieldLine(parsing: line)
    let name = line.extracting(..<field.nameEnd)
    let value = line.extracting(field.value)
    try framing.take(name: name, value: value)
    guard let fieldName = HTTPField.Name(copying: name) else {
      throw .invalidRequest("A header field's name is not a token.")
    }
    // Of bytes that are not ASCII the field keeps the bytes, which may be in any encoding.
    fields.append(
      field.isASCII
        ? HTTPField(name: fieldName, value: String(copying: value))
        : value.withUnsafeBufferPointer { HTTPField(name: fieldName, value: $0) })
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

import Foundation

/// Decodes request heads, one line at a time.
///
/// The caller passes the same buffer, with more bytes at its end, until the head is complete. Decoded lines are not
/// read again. The result does not depend on how the bytes are split.
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

  /// Refuses a first byte that no request has, such as that of a TLS handshake, before the end of the line: it may
  /// never come.
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

/// Finds the ends of lines in bytes that arrive in pieces.
///
/// Only CR LF ends a line. If the server accepted a bare LF and the proxy in front of it did not, the server would see
/// two requests where the proxy saw one.
struct LineReader {
  /// The length of the incomplete line that was searched, so that a client that sends single bytes does not cause a
  /// search of the whole line for each.
  private var searched = 0

  /// A line, or the part of it that has arrived.
  struct Line {
    /// The length without CR LF. A CR at the end of an incomplete line is not counted; otherwise a line of exactly the
    /// allowed length would be refused when it arrives in two pieces.
    let length: Int
    fileprivate let end: End

    fileprivate enum End { case none, bareLineFeed, carriageReturnLineFeed }

    /// Whether the end of the line has arrived. Check the length first: the end of an overlong line may never come.
    ///
    /// - Throws: 400 if the line ends with a bare LF. The grammar of the line refuses a CR elsewhere.
    func isComplete() throws(Problem) -> Bool {
      guard end != .bareLineFeed else { throw .invalidRequest("A line must end with CR LF.") }
      return end != .none
    }
  }

  /// The line at `position`.
  mutating func line(in input: Span<UInt8>, at position: Int) -> Line {
    let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: position + searched)
    let stop = lineFeed ?? input.count
    searched = lineFeed == nil ? input.count - position : 0
    let hasReturn = stop > position && input[stop - 1] == ASCII.carriageReturn
    return Line(
      length: stop - position - (hasReturn ? 1 : 0),
      end: lineFeed == nil ? .none : hasReturn ? .carriageReturnLineFeed : .bareLineFeed)
  }
}

extension Span<UInt8> {
  /// The index of the first `byte` at or after `start`.
  func firstIndex(of byte: UInt8, from start: Int) -> Int? {
    withUnsafeBufferPointer { bytes in
      guard let base = bytes.baseAddress, start < bytes.count,
        let found = memchr(base + start, Int32(byte), bytes.count - start)
      else { return nil }
      return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }
  }
}

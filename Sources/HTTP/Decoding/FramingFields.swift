/// Collects the header fields that decide the framing of a request and the life of its connection.
struct FramingFields {
  private var contentLength: Int?
  private var isChunked = false
  /// The range of the host in the head.
  private var host: Range<Int>?
  private var connectionClose = false
  private var connectionKeepAlive = false
  private var expectsContinue = false
  private var unknownExpectation = false
  private var clientRequestID: Range<Int>?
  private var traceparent: Range<Int>?
  private var hasTraceparent = false
  private var contentType: Range<Int>?
  private var hasContentType = false

  /// Reads one field.
  ///
  /// - Parameter place: the range of the value in the head.
  /// - Throws: 400 if a framing field is malformed or repeated; 501 for an unknown transfer coding.
  mutating func take(name: Span<UInt8>, value: Span<UInt8>, at place: Range<Int>) throws(Problem) {
    // The length alone rules out most other fields.
    switch name.count {
    case 4 where ASCII.isEqual(name, lowercase: "host"): try takeHost(value, at: place)
    case 6 where ASCII.isEqual(name, lowercase: "expect"): takeExpect(value)
    case 10 where ASCII.isEqual(name, lowercase: "connection"): takeConnection(value)
    case 11 where ASCII.isEqual(name, lowercase: "traceparent"):
      // Several fields count as none (Trace Context, section 3.2).
      traceparent = hasTraceparent ? nil : place
      hasTraceparent = true
    case 12 where ASCII.isEqual(name, lowercase: "x-request-id"):
      if RequestID.isAcceptable(value) { clientRequestID = place }
    case 12 where ASCII.isEqual(name, lowercase: "content-type"):
      contentType = hasContentType ? nil : place
      hasContentType = true
    case 14 where ASCII.isEqual(name, lowercase: "content-length"): try takeContentLength(value)
    case 17 where ASCII.isEqual(name, lowercase: "transfer-encoding"): try takeTransferEncoding(value)
    default: break
    }
  }

  /// Makes the head from the collected fields.
  ///
  /// - Parameters:
  ///   - bytes: the request line and all fields.
  ///   - fields: the range of the fields in `bytes`.
  /// - Throws: 400 or 417 if the fields contradict each other.
  func head(_ line: RequestLine, bytes: [UInt8], fields: Range<Int>) throws(Problem) -> RequestHead {
    if line.version == .http11, host == nil {
      throw .invalidRequest("A request of HTTP/1.1 needs a Host field.")
    }
    if isChunked, contentLength != nil {
      throw .invalidRequest("Content-Length and Transfer-Encoding exclude each other.")
    }
    if isChunked, line.version == .http10 {
      throw .invalidRequest("HTTP/1.0 has no Transfer-Encoding.")
    }
    // RFC 9110 §10.1.1: expectations of HTTP/1.0 are ignored.
    if unknownExpectation, line.version == .http11 { throw .expectationFailed }
    let framing: BodyFraming =
      isChunked ? .chunked : contentLength.map { $0 == 0 ? .none : .length($0) } ?? .none
    return RequestHead(
      method: line.method, version: line.version, framing: framing,
      expectsContinue: expectsContinue && line.version == .http11 && framing != .none,
      wantsKeepAlive: !connectionClose && (line.version == .http11 || connectionKeepAlive),
      bytes: bytes,
      ranges: RequestHead.Ranges(
        path: line.target.path.moved(by: line.targetStart),
        query: line.target.query?.moved(by: line.targetStart),
        authority: line.target.authority?.moved(by: line.targetStart) ?? host,
        clientRequestID: clientRequestID,
        traceparent: traceparent, contentType: contentType, fields: fields))
  }

  private mutating func takeHost(_ value: Span<UInt8>, at place: Range<Int>) throws(Problem) {
    guard host == nil else { throw .invalidRequest("There are two Host fields.") }
    guard Authority.isValid(value) else { throw .invalidRequest("The Host field is malformed.") }
    host = place
  }

  private mutating func takeContentLength(_ value: Span<UInt8>) throws(Problem) {
    // RFC 9110 §8.6 allows equal duplicates; in practice only attacks send them.
    guard contentLength == nil else { throw .invalidRequest("There are two Content-Length fields.") }
    guard let length = DecimalDigits.parse(value) else {
      throw .invalidRequest("Content-Length must be decimal digits, and not too many.")
    }
    contentLength = length
  }

  private mutating func takeTransferEncoding(_ value: Span<UInt8>) throws(Problem) {
    guard !isChunked else { throw .invalidRequest("There are two Transfer-Encoding fields.") }
    switch TransferCoding(parsing: value) {
    case .chunked: isChunked = true
    case .unknown: throw .notImplemented("The only transfer coding that is known is chunked.")
    case .malformed: throw .invalidRequest("Transfer-Encoding must be 'chunked', once.")
    }
  }

  private mutating func takeExpect(_ value: Span<UInt8>) {
    if ASCII.isEqual(value, lowercase: "100-continue") {
      expectsContinue = true
    } else {
      unknownExpectation = true
    }
  }

  private mutating func takeConnection(_ value: Span<UInt8>) {
    value.forEachListElement { element in
      if ASCII.isEqual(element, lowercase: "close") { connectionClose = true }
      if ASCII.isEqual(element, lowercase: "keep-alive") { connectionKeepAlive = true }
    }
  }
}

extension Range<Int> {
  func moved(by offset: Int) -> Range<Int> { (lowerBound + offset)..<(upperBound + offset) }
}

/// The value of a `Transfer-Encoding` field (RFC 9112 §6.1).
enum TransferCoding {
  /// Exactly `chunked`.
  case chunked
  /// A well-formed coding, or list of them, that this server does not know.
  case unknown
  /// Not a list of codings, or a list in which `chunked` is not last, is repeated or has parameters: the end of the
  /// body is ambiguous.
  case malformed

  init(parsing value: Span<UInt8>) {
    if ASCII.isEqual(value, lowercase: "chunked") {
      self = .chunked
      return
    }
    var isWellFormed = true
    var mentionsChunked = false
    var endsWithChunked = false
    var count = 0
    value.forEachListElement { element in
      var nameEnd = 0
      while nameEnd < element.count, ASCII.isTokenCharacter(element[nameEnd]) { nameEnd += 1 }
      let isBare = nameEnd == element.count
      if nameEnd == 0 || (!isBare && element[nameEnd] != UInt8(ascii: ";")) { isWellFormed = false }
      // `chunked` twice, or `chunked;q=1`, or `chunked, gzip`.
      if mentionsChunked { isWellFormed = false }
      endsWithChunked = ASCII.isEqual(element.extracting(..<nameEnd), lowercase: "chunked")
      if endsWithChunked {
        mentionsChunked = true
        if !isBare { isWellFormed = false }
      }
      count += 1
    }
    // A list such as `, chunked` does not come from a well-behaved client.
    self = isWellFormed && count > (mentionsChunked ? 1 : 0) ? .unknown : .malformed
  }
}

extension Span<UInt8> {
  /// Calls `body` with each element between commas, trimmed, and with empty elements.
  func forEachListElement(_ body: (Span<UInt8>) -> Void) {
    var start = 0
    while start <= count {
      let end = start < count ? firstIndex(of: UInt8(ascii: ","), from: start) ?? count : count
      var first = start
      var last = end
      while first < last, self[first] == ASCII.space || self[first] == ASCII.tab { first += 1 }
      while last > first, self[last - 1] == ASCII.space || self[last - 1] == ASCII.tab { last -= 1 }
      body(extracting(first..<last))
      start = end + 1
    }
  }
}

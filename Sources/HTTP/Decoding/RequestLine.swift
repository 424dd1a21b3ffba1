import HTTPTypes

/// The first line of a request (RFC 9112 §3), with exactly one space between its parts.
struct RequestLine {
  var method = HTTPRequest.Method.get
  /// The offset of the target in the line.
  var targetStart = 0
  var target = RequestTarget()
  var version = HTTPVersion.http11

  /// A placeholder until the line is decoded.
  init() {}

  /// - Parameter line: without its CR LF.
  init(parsing line: Span<UInt8>) throws(Problem) {
    guard let methodEnd = line.firstIndex(of: ASCII.space, from: 0),
      let targetEnd = line.firstIndex(of: ASCII.space, from: methodEnd + 1)
    else {
      throw .invalidRequest("A request line has a method, a target and a version.")
    }
    method = try Self.method(line.extracting(..<methodEnd))
    version = try Self.version(line.extracting((targetEnd + 1)...))
    targetStart = methodEnd + 1
    target = try RequestTarget(parsing: line.extracting((methodEnd + 1)..<targetEnd), method: method)
  }

  private static func method(_ token: Span<UInt8>) throws(Problem) -> HTTPRequest.Method {
    guard !token.isEmpty, token.indices.allSatisfy({ ASCII.isTokenCharacter(token[$0]) }) else {
      throw .invalidRequest("The method is not a token.")
    }
    // Methods are case-sensitive. These are compared first, which saves a string for each request.
    if token.isEqual(to: "GET") { return .get }
    if token.isEqual(to: "POST") { return .post }
    if token.isEqual(to: "PUT") { return .put }
    guard token.count <= 32, let method = HTTPRequest.Method(String(copying: token)), method != .connect
    else {
      // RFC 9110 §15.6.2.
      throw .notImplemented("This method is not implemented.")
    }
    return method
  }

  private static func version(_ text: Span<UInt8>) throws(Problem) -> HTTPVersion {
    if text.isEqual(to: "HTTP/1.1") { return .http11 }
    if text.isEqual(to: "HTTP/1.0") { return .http10 }
    guard text.count == 8, text.extracting(..<5).isEqual(to: "HTTP/"), ASCII.isDigit(text[5]),
      text[6] == UInt8(ascii: "."), ASCII.isDigit(text[7])
    else {
      throw .invalidRequest("The version of HTTP is malformed.")
    }
    throw .versionNotSupported
  }
}

extension Span<UInt8> {
  /// Whether these are exactly the bytes of `text`.
  func isEqual(to text: StaticString) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    return text.withUTF8Buffer { expected in
      for index in 0..<count where self[index] != expected[index] { return false }
      return true
    }
  }
}

extension String {
  /// The text of ASCII bytes.
  init(copying bytes: Span<UInt8>) {
    self = bytes.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
  }
}

/// The parts of a request target (RFC 9112 §3.2), as ranges of its bytes.
struct RequestTarget: Equatable {
  /// The path: begins with a slash, or is `*`; empty for the root.
  var path = 0..<0
  /// The query without the question mark; nil if there is none.
  var query: Range<Int>?
  /// The host and port of an absolute-form target, which take precedence over `Host`.
  var authority: Range<Int>?

  /// The root.
  init() {}

  /// Parses origin form, absolute form with `http` or `https`, and `*` for `OPTIONS`.
  init(parsing bytes: Span<UInt8>, method: HTTPRequest.Method) throws(Problem) {
    if bytes.count == 1, bytes[0] == UInt8(ascii: "*") {
      guard method == .options else { throw .invalidRequest("Only OPTIONS can have the target '*'.") }
      path = 0..<1
      return
    }
    var index = 0
    if bytes.isEmpty || bytes[0] != UInt8(ascii: "/") {
      let authority = try Self.authority(bytes)
      self.authority = authority
      index = authority.upperBound
    }
    let start = index
    var question: Int?
    while index < bytes.count {
      guard ASCII.isTargetCharacter(bytes[index]) else {
        throw .invalidRequest("The target holds a character that must be percent-encoded.")
      }
      if question == nil, bytes[index] == UInt8(ascii: "?") { question = index }
      index += 1
    }
    path = start..<(question ?? bytes.count)
    query = question.map { ($0 + 1)..<bytes.count }
  }

  /// The range of the authority in an absolute-form target.
  private static func authority(_ bytes: Span<UInt8>) throws(Problem) -> Range<Int> {
    let start: Int
    if bytes.count > 7, ASCII.isEqual(bytes.extracting(..<7), lowercase: "http://") {
      start = 7
    } else if bytes.count > 8, ASCII.isEqual(bytes.extracting(..<8), lowercase: "https://") {
      start = 8
    } else {
      throw .invalidRequest("The target must be a path or an http address.")
    }
    var end = start
    while end < bytes.count, bytes[end] != UInt8(ascii: "/"), bytes[end] != UInt8(ascii: "?") { end += 1 }
    guard Authority.isValid(bytes.extracting(start..<end)) else {
      throw .invalidRequest("The target's host is malformed.")
    }
    return start..<end
  }
}

/// The host and port of a `Host` field or an absolute-form target (RFC 3986 §3.2).
enum Authority {
  /// Whether the bytes are a host and an optional port. User information is refused (RFC 9110 §4.2.4).
  static func isValid(_ bytes: Span<UInt8>) -> Bool {
    guard !bytes.isEmpty else { return false }
    var index = 0
    if bytes[0] == UInt8(ascii: "[") {
      guard let bracket = bytes.firstIndex(of: UInt8(ascii: "]"), from: 1), bracket > 2 else { return false }
      for inside in 1..<bracket where !isIPLiteralCharacter(bytes[inside]) { return false }
      index = bracket + 1
    } else {
      while index < bytes.count, bytes[index] != ASCII.colon {
        guard isNameCharacter(bytes[index]) else { return false }
        if bytes[index] == UInt8(ascii: "%") {
          guard index + 2 < bytes.count, ASCII.hexValue(bytes[index + 1]) != nil,
            ASCII.hexValue(bytes[index + 2]) != nil
          else { return false }
        }
        index += 1
      }
      guard index > 0 else { return false }
    }
    guard index < bytes.count else { return true }
    guard bytes[index] == ASCII.colon else { return false }
    return isPort(bytes.extracting((index + 1)...))
  }

  /// RFC 3986 allows an empty port after the colon; it is refused here, because no client sends it.
  private static func isPort(_ bytes: Span<UInt8>) -> Bool {
    guard bytes.count <= 5, let port = DecimalDigits.parse(bytes) else { return false }
    return port <= 65_535
  }

  /// `unreserved`, `sub-delims` and `%`: a registered name or an IPv4 address.
  private static func isNameCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "@"): false
    default: ASCII.isTargetCharacter(byte)
    }
  }

  private static func isIPLiteralCharacter(_ byte: UInt8) -> Bool {
    ASCII.hexValue(byte) != nil || byte == ASCII.colon || byte == UInt8(ascii: ".")
  }
}

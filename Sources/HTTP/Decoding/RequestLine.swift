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

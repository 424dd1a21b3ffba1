import HTTPTypes

/// What a request asks for (RFC 9112 §3.2), not percent-decoded.
struct RequestTarget: Equatable {
  /// Begins with a slash, or is `*`.
  var path = "/"
  /// Without the question mark; nil if there is none.
  var query: String?
  /// The host and port of an absolute-form target, which outranks `Host`.
  var authority: String?

  /// The root.
  init() {}

  /// Takes origin form, absolute form with `http` or `https`, and `*` for `OPTIONS`.
  init(parsing bytes: Span<UInt8>, method: HTTPRequest.Method) throws(Problem) {
    if bytes.isEqual(to: "*") {
      guard method == .options else { throw .invalidRequest("Only OPTIONS can have the target '*'.") }
      path = "*"
      return
    }
    var rest = bytes
    if bytes.isEmpty || bytes[0] != UInt8(ascii: "/") {
      let (host, end) = try Self.absolute(bytes)
      authority = host
      rest = bytes.extracting(end...)
    }
    guard rest.indices.allSatisfy({ ASCII.isTargetCharacter(rest[$0]) }) else {
      throw .invalidRequest("The target holds a character that must be percent-encoded.")
    }
    let question = rest.firstIndex(of: UInt8(ascii: "?"), from: 0)
    let pathBytes = rest.extracting(..<(question ?? rest.count))
    path = pathBytes.isEmpty ? "/" : String(copying: pathBytes)
    if let question { query = String(copying: rest.extracting((question + 1)...)) }
  }

  /// The authority of an absolute-form target, and where its path begins.
  private static func absolute(_ bytes: Span<UInt8>) throws(Problem) -> (authority: String, end: Int) {
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
    return (String(copying: bytes.extracting(start..<end)), end)
  }
}

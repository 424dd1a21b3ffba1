import HTTPTypes

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

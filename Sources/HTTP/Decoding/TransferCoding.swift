/// The value of a `Transfer-Encoding` field (RFC 9112 §6.1).
enum TransferCoding {
  /// Exactly `chunked`.
  case chunked
  /// A well-formed coding, or list of them, that this server does not know.
  case unknown
  /// Not a list of codings, or a list in which `chunked` is not last, is repeated or has parameters: the end of the body
  /// is ambiguous.
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

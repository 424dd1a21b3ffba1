import FoundationEssentials

/// What is checked of JSON before a decoder sees it.
enum JSONShape {
  /// - Throws: 400 `invalid_json` for what is empty, not UTF-8 (a decoder would also take UTF-16), begins
  ///   with a byte order mark, or nests deeper than ``JSONCoding/maximumDepth``.
  static func check(_ bytes: [UInt8]) throws(Problem) {
    guard let first = bytes.first else { throw .invalidJSON("The body is empty.") }
    guard first != 0xEF, (try? UTF8Span(validating: bytes.span)) != nil else {
      throw .invalidJSON("The body must be UTF-8 without a byte order mark.")
    }
    // UTF-16 in ASCII's range is valid UTF-8 with NULs in it, which JSON never has outside of escapes.
    guard depth(of: bytes) <= JSONCoding.maximumDepth else {
      throw .invalidJSON("The body is nested deeper than \(JSONCoding.maximumDepth) levels.")
    }
    guard !bytes.contains(0) else { throw .invalidJSON("The body holds a NUL byte.") }
  }

  /// How deep brackets and braces nest, whether or not they match.
  static func depth(of bytes: [UInt8]) -> Int {
    var depth = 0
    var deepest = 0
    var index = 0
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        depth += 1
        deepest = max(deepest, depth)
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        depth -= 1
      case UInt8(ascii: "\""):
        index = endOfString(in: bytes, from: index + 1)
      default:
        break
      }
      index += 1
    }
    return deepest
  }

  /// The index of the closing quote, or the end of the bytes.
  private static func endOfString(in bytes: [UInt8], from start: Int) -> Int {
    var index = start
    while index < bytes.count {
      // A signed payload is one string of many kilobytes: the library's search is ten times a loop.
      guard let quote = bytes[index...].firstIndex(of: UInt8(ascii: "\"")) else { return bytes.count }
      var backslashes = 0
      while quote - backslashes > start, bytes[quote - backslashes - 1] == UInt8(ascii: "\\") {
        backslashes += 1
      }
      guard !backslashes.isMultiple(of: 2) else { return quote }
      index = quote + 1
    }
    return bytes.count
  }
}

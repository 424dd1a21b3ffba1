/// The query of a request target, as decoded `name=value` pairs in their order.
public struct Query: Sendable, Hashable {
  /// The query as sent, without the question mark; empty if there was none.
  public let raw: String
  private let items: [Item]

  private struct Item: Hashable {
    let name: String
    let value: String
  }

  /// The empty query.
  public init() {
    raw = ""
    items = []
  }

  /// Decodes a query such as `bundleID=com.example&limit=5`.
  ///
  /// `+` is a space, a name without `=` has an empty value, and empty parts are skipped.
  ///
  /// - Parameter allowsLines: whether a value may have line breaks and tabs, as a text of several lines in a form has.
  /// - Throws: 400 `invalid_request` for a bad escape, bytes that are not UTF-8, or control characters.
  public init(decoding raw: String, allowsLines: Bool = false) throws(Problem) {
    self.raw = raw
    var items: [Item] = []
    let bytes = raw.utf8.span
    var start = 0
    while start < bytes.count {
      var end = start
      var equals: Int?
      while end < bytes.count, bytes[end] != UInt8(ascii: "&") {
        if equals == nil, bytes[end] == UInt8(ascii: "=") { equals = end }
        end += 1
      }
      if end > start {
        let nameEnd = equals ?? end
        let valueStart = min(nameEnd + 1, end)
        guard
          let name = PercentDecoding.decode(bytes.extracting(start..<nameEnd), plusIsSpace: true),
          let value = PercentDecoding.decode(
            bytes.extracting(valueStart..<end), plusIsSpace: true, allowsLines: allowsLines)
        else {
          throw .invalidRequest("The query has a malformed percent-encoding.")
        }
        items.append(Item(name: name, value: value))
      }
      start = end + 1
    }
    self.items = items
  }

  /// The first value of that name.
  public subscript(name: String) -> String? {
    for item in items where item.name == name { return item.value }
    return nil
  }

  /// Every value of that name, in order.
  public func values(for name: String) -> [String] {
    items.filter { $0.name == name }.map(\.value)
  }

  /// The first value of that name.
  ///
  /// - Throws: 400 `invalid_request` if there is none, or more than one, because servers differ in which of them
  ///   counts.
  public func require(_ name: String) throws(Problem) -> String {
    let values = values(for: name)
    guard let value = values.first, values.count == 1 else {
      throw .invalidRequest("The query parameter '\(name)' is needed exactly once.")
    }
    return value
  }
}

/// Strict percent-decoding (RFC 3986 §2.1).
enum PercentDecoding {
  /// The decoded text, or nil if an escape is malformed, or if the result is not UTF-8 or has a control character: NUL
  /// and line breaks would reach logs and C strings.
  ///
  /// - Parameters:
  ///   - plusIsSpace: as in `application/x-www-form-urlencoded`, which queries follow.
  ///   - allowsLines: whether line breaks and tabs are allowed.
  static func decode(
    _ bytes: Span<UInt8>, plusIsSpace: Bool = false, allowsLines: Bool = false
  ) -> String? {
    var decoded: [UInt8] = []
    decoded.reserveCapacity(bytes.count)
    var index = 0
    while index < bytes.count {
      var byte = bytes[index]
      if byte == UInt8(ascii: "%") {
        guard index + 2 < bytes.count, let high = ASCII.hexValue(bytes[index + 1]),
          let low = ASCII.hexValue(bytes[index + 2])
        else { return nil }
        byte = high << 4 | low
        index += 2
      } else if plusIsSpace, byte == UInt8(ascii: "+") {
        byte = UInt8(ascii: " ")
      }
      let isLine = allowsLines && (byte == 0x09 || byte == 0x0A || byte == 0x0D)
      guard byte >= 0x20 || isLine, byte != 0x7F else { return nil }
      decoded.append(byte)
      index += 1
    }
    return String(validating: decoded, as: UTF8.self)
  }
}

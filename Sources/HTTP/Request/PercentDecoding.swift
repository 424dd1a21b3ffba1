/// Strict percent-decoding (RFC 3986 §2.1).
enum PercentDecoding {
  /// The decoded text, or nil if an escape is malformed, or if the result is not UTF-8 or has a control character: NUL and
  /// line breaks would reach logs and C strings.
  ///
  /// - Parameter plusIsSpace: as in `application/x-www-form-urlencoded`, which queries follow.
  static func decode(_ bytes: Span<UInt8>, plusIsSpace: Bool = false) -> String? {
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
      guard byte >= 0x20, byte != 0x7F else { return nil }
      decoded.append(byte)
      index += 1
    }
    return String(validating: decoded, as: UTF8.self)
  }
}

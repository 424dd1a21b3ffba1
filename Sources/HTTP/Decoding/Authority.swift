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

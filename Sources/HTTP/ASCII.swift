/// The character classes of HTTP's grammar.
enum ASCII {
  static let carriageReturn = UInt8(ascii: "\r")
  static let lineFeed = UInt8(ascii: "\n")
  static let space = UInt8(ascii: " ")
  static let tab = UInt8(ascii: "\t")
  static let colon = UInt8(ascii: ":")

  /// `tchar` of RFC 9110 §5.6.2: the characters of methods and field names.
  @inline(__always)
  static func isTokenCharacter(_ byte: UInt8) -> Bool {
    contains(byte, low: 0x03FF_6CFA_0000_0000, high: 0x57FF_FFFF_C7FF_FFFE)
  }

  /// The characters of a field value: `VCHAR`, `obs-text`, space and tab (RFC 9110 §5.5).
  @inline(__always)
  static func isFieldValueCharacter(_ byte: UInt8) -> Bool {
    byte >= 0x20 ? byte != 0x7F : byte == tab
  }

  /// The characters of an origin-form target: `pchar`, `/` and `?` of RFC 3986, and `%`.
  @inline(__always)
  static func isTargetCharacter(_ byte: UInt8) -> Bool {
    contains(byte, low: 0xAFFF_FFF2_0000_0000, high: 0x47FF_FFFE_87FF_FFFF)
  }

  @inline(__always)
  static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }

  /// The value of a hexadecimal digit of either case.
  @inline(__always)
  static func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  @inline(__always)
  static func lowercased(_ byte: UInt8) -> UInt8 {
    byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
  }

  /// Whether `bytes` equals `lowercase`, ignoring ASCII case.
  static func isEqual(_ bytes: Span<UInt8>, lowercase: StaticString) -> Bool {
    guard bytes.count == lowercase.utf8CodeUnitCount else { return false }
    return lowercase.withUTF8Buffer { expected in
      for index in 0..<bytes.count where lowercased(bytes[index]) != expected[index] { return false }
      return true
    }
  }

  /// Whether the bit of the byte is set: `low` has the bits of bytes 0 to 63, `high` those of 64 to 127. Constants,
  /// because a lazily made table would be checked for each byte.
  @inline(__always)
  private static func contains(_ byte: UInt8, low: UInt64, high: UInt64) -> Bool {
    byte < 64 ? low >> byte & 1 == 1 : byte < 128 && high >> (byte & 63) & 1 == 1
  }
}

/// Decimal numbers in HTTP messages.
enum DecimalDigits {
  /// The number, or nil unless `bytes` are 1 to 19 digits that fit into an `Int`. `Int(String)` would accept a sign,
  /// which allows request smuggling.
  static func parse(_ bytes: Span<UInt8>) -> Int? {
    guard (1...19).contains(bytes.count) else { return nil }
    var value = 0
    for index in bytes.indices {
      guard ASCII.isDigit(bytes[index]) else { return nil }
      let (tens, tooManyTens) = value.multipliedReportingOverflow(by: 10)
      let (sum, tooMuch) = tens.addingReportingOverflow(Int(bytes[index] - UInt8(ascii: "0")))
      guard !tooManyTens, !tooMuch else { return nil }
      value = sum
    }
    return value
  }

  /// Appends `value`, which must not be negative, without making a string.
  static func write(_ value: Int, to output: inout [UInt8]) {
    guard value >= 10 else {
      output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
      return
    }
    write(value / 10, to: &output)
    output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10))
  }
}

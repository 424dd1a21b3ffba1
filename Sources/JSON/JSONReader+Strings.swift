extension JSONReader {
  /// A string.
  public mutating func string() throws(JSONFailure) -> String {
    let start = position
    if let plain = try plainString() {
      return bytes.withUnsafeBufferPointer {
        String(decoding: UnsafeBufferPointer(rebasing: $0[plain]), as: UTF8.self)
      }
    }
    position = start
    return String(decoding: try unescapedString(), as: UTF8.self)
  }

  /// The range of a string without escapes; nil for a string with escapes, and the reader is then inside the string.
  mutating func plainString() throws(JSONFailure) -> Range<Int>? {
    guard peek() == UInt8(ascii: "\"") else { throw mismatch(.string) }
    let start = position + 1
    position = bytes.endOfPlainText(from: start)
    guard position < bytes.count else { throw malformed }
    switch bytes[position] {
    case UInt8(ascii: "\""):
      position += 1
      return start..<(position - 1)
    case UInt8(ascii: "\\"): return nil
    default: throw malformed
    }
  }

  /// Skips a string.
  mutating func skipString() throws(JSONFailure) {
    guard peek() == UInt8(ascii: "\"") else { throw malformed }
    position += 1
    while true {
      position = bytes.endOfPlainText(from: position)
      guard position < bytes.count else { throw malformed }
      switch bytes[position] {
      case UInt8(ascii: "\""):
        position += 1
        return
      case UInt8(ascii: "\\"):
        position += 1
        try skipEscape()
      default: throw malformed
      }
    }
  }

  /// Skips the rest of an escape. Surrogate pairs are not checked in skipped strings.
  private mutating func skipEscape() throws(JSONFailure) {
    guard position < bytes.count else { throw malformed }
    if bytes[position] == UInt8(ascii: "u") {
      position += 1
      _ = try codeUnit()
    } else {
      _ = try simpleEscape()
    }
  }

  private mutating func unescapedString() throws(JSONFailure) -> [UInt8] {
    guard take(UInt8(ascii: "\"")) else { throw mismatch(.string) }
    var text: [UInt8] = []
    while true {
      let start = position
      position = bytes.endOfPlainText(from: position)
      text += bytes[start..<position]
      guard position < bytes.count else { throw malformed }
      switch bytes[position] {
      case UInt8(ascii: "\""):
        position += 1
        return text
      case UInt8(ascii: "\\"):
        position += 1
        guard position < bytes.count else { throw malformed }
        if bytes[position] == UInt8(ascii: "u") {
          position += 1
          text += UTF8.encode(try scalar()) ?? Unicode.UTF8.encodedReplacementCharacter
        } else {
          text.append(try simpleEscape())
        }
      default: throw malformed
      }
    }
  }

  /// The character of a one-letter escape (RFC 8259 §7).
  private mutating func simpleEscape() throws(JSONFailure) -> UInt8 {
    let byte: UInt8
    switch bytes[position] {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): byte = bytes[position]
    case UInt8(ascii: "b"): byte = 0x08
    case UInt8(ascii: "f"): byte = 0x0C
    case UInt8(ascii: "n"): byte = 0x0A
    case UInt8(ascii: "r"): byte = 0x0D
    case UInt8(ascii: "t"): byte = 0x09
    default: throw malformed
    }
    position += 1
    return byte
  }

  /// The scalar of `XXXX`, or of the surrogate pair `XXXX\uXXXX`.
  private mutating func scalar() throws(JSONFailure) -> Unicode.Scalar {
    let first = try codeUnit()
    if let scalar = Unicode.Scalar(first) { return scalar }
    guard UTF16.isLeadSurrogate(first), position + 1 < bytes.count,
      bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u")
    else { throw malformed }
    position += 2
    let second = try codeUnit()
    guard UTF16.isTrailSurrogate(second),
      let scalar = Unicode.Scalar(0x10000 + (UInt32(first & 0x3FF) << 10 | UInt32(second & 0x3FF)))
    else { throw malformed }
    return scalar
  }

  private mutating func codeUnit() throws(JSONFailure) -> UInt16 {
    var value: UInt16 = 0
    for _ in 0..<4 {
      guard position < bytes.count, let digit = Self.hexValue(bytes[position]) else { throw malformed }
      value = value << 4 | UInt16(digit)
      position += 1
    }
    return value
  }

  private static func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

extension [UInt8] {
  /// The first position from `start` on of a quotation mark, a backslash or a control character; `count` if there
  /// is none.
  func endOfPlainText(from start: Int) -> Int {
    withUnsafeBytes { $0.endOfPlainText(from: start) }
  }
}

extension UnsafeRawBufferPointer {
  /// The first position from `start` on of a quotation mark, a backslash or a control character; `count` if there
  /// is none.
  ///
  /// Signed payloads are strings of thousands of bytes, so the loop tests eight bytes at a time. Subtraction sets the
  /// top bit of a byte that is smaller than the subtrahend. A byte that equals another is 0 after an exclusive or, so
  /// smaller than 1. A borrow can only change bytes above the first match.
  func endOfPlainText(from start: Int) -> Int {
    let each: UInt64 = 0x0101_0101_0101_0101
    var position = start
    while position + 8 <= count {
      let word = UInt64(littleEndian: loadUnaligned(fromByteOffset: position, as: UInt64.self))
      let quotes = word ^ each &* UInt64(UInt8(ascii: "\""))
      let backslashes = word ^ each &* UInt64(UInt8(ascii: "\\"))
      let hits =
        ((quotes &- each) & ~quotes | (backslashes &- each) & ~backslashes | (word &- each &* 0x20) & ~word)
        & (each &* 0x80)
      if hits != 0 { return position + hits.trailingZeroBitCount / 8 }
      position += 8
    }
    while position < count {
      let byte = self[position]
      if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
      position += 1
    }
    return position
  }
}

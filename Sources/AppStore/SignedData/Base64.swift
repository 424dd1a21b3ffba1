/// Base64 as RFC 4648 defines it, strictly: no foreign characters, no line breaks, no bits left over.
///
/// Every accepted text is the one text that its bytes encode to. A JWS can therefore be stored as bytes and
/// written again exactly as it came, and nobody can make a second text of the same content.
public enum Base64 {
  /// Which 64 characters, and whether the end is padded.
  public enum Alphabet: Sendable {
    /// `+`, `/` and padding (RFC 4648, section 4): certificates in `x5c`.
    case standard
    /// `-`, `_` and no padding (RFC 4648, section 5; RFC 7515, section 2): the segments of a JWS.
    case url
  }

  /// The bytes that a text stands for; nil if it is not exactly the encoding of any.
  public static func decode(_ text: [UInt8], _ alphabet: Alphabet) -> [UInt8]? {
    text.withUnsafeBufferPointer { decode($0, alphabet) }
  }

  /// The bytes that a text stands for; nil if it is not exactly the encoding of any.
  public static func decode(_ text: String, _ alphabet: Alphabet) -> [UInt8]? {
    var text = text
    return text.withUTF8 { decode($0, alphabet) }
  }

  static func decode(_ text: ArraySlice<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
    text.withUnsafeBufferPointer { decode($0, alphabet) }
  }

  /// The text of some bytes, as ASCII.
  public static func encode(_ bytes: [UInt8], _ alphabet: Alphabet) -> [UInt8] {
    let (whole, rest) = bytes.count.quotientAndRemainder(dividingBy: 3)
    let tail = rest == 0 ? 0 : alphabet == .standard ? 4 : rest + 1
    return [UInt8](unsafeUninitializedCapacity: whole * 4 + tail) { text, count in
      alphabet.characters.withUnsafeBufferPointer { characters in
        bytes.withUnsafeBufferPointer { bytes in
          var source = 0
          func put(_ group: UInt32, _ length: Int) {
            for shift in 0..<length {
              text[count + shift] = characters[Int(group >> UInt32(18 - 6 * shift)) & 63]
            }
            count += length
          }
          for _ in 0..<whole {
            put(
              UInt32(bytes[source]) << 16 | UInt32(bytes[source + 1]) << 8 | UInt32(bytes[source + 2]), 4)
            source += 3
          }
          switch rest {
          case 1: put(UInt32(bytes[source]) << 16, 2)
          case 2: put(UInt32(bytes[source]) << 16 | UInt32(bytes[source + 1]) << 8, 3)
          default: break
          }
        }
      }
      while count < whole * 4 + tail {
        text[count] = UInt8(ascii: "=")
        count += 1
      }
    }
  }

  /// The text of some bytes.
  public static func string(_ bytes: [UInt8], _ alphabet: Alphabet) -> String {
    String(decoding: encode(bytes, alphabet), as: UTF8.self)
  }

  static func decode(_ text: UnsafeBufferPointer<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
    var length = text.count
    if alphabet == .standard {
      guard length % 4 == 0 else { return nil }
      for _ in 0..<2 where length > 0 && text[length - 1] == UInt8(ascii: "=") { length -= 1 }
    }
    let (whole, rest) = length.quotientAndRemainder(dividingBy: 4)
    guard rest != 1 else { return nil }
    // Bit 7 is set for characters outside the alphabet: all of them are gathered and looked at once.
    var seen: UInt8 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: whole * 3 + max(rest - 1, 0)) { bytes, count in
      alphabet.values.withUnsafeBufferPointer { values in
        var source = 0
        func value(_ offset: Int) -> UInt32 {
          let value = values[Int(text[source + offset])]
          seen |= value
          return UInt32(value)
        }
        for _ in 0..<whole {
          let group = value(0) << 18 | value(1) << 12 | value(2) << 6 | value(3)
          bytes[count] = UInt8(truncatingIfNeeded: group >> 16)
          bytes[count + 1] = UInt8(truncatingIfNeeded: group >> 8)
          bytes[count + 2] = UInt8(truncatingIfNeeded: group)
          source += 4
          count += 3
        }
        // The bits of the last character that belong to no byte must be zero.
        if rest == 2 {
          let group = value(0) << 6 | value(1)
          if group & 0x0f != 0 { seen |= invalid }
          bytes[count] = UInt8(truncatingIfNeeded: group >> 4)
          count += 1
        } else if rest == 3 {
          let group = value(0) << 12 | value(1) << 6 | value(2)
          if group & 0x03 != 0 { seen |= invalid }
          bytes[count] = UInt8(truncatingIfNeeded: group >> 10)
          bytes[count + 1] = UInt8(truncatingIfNeeded: group >> 2)
          count += 2
        }
      }
    }
    return seen & invalid == 0 ? bytes : nil
  }

  private static let invalid: UInt8 = 0x80
  fileprivate static let standardCharacters = characters("+/")
  fileprivate static let urlCharacters = characters("-_")
  fileprivate static let standardValues = values(of: standardCharacters)
  fileprivate static let urlValues = values(of: urlCharacters)

  private static func characters(_ lastTwo: String) -> [UInt8] {
    Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(lastTwo)".utf8)
  }

  private static func values(of characters: [UInt8]) -> [UInt8] {
    var values = [UInt8](repeating: invalid, count: 256)
    for (value, character) in characters.enumerated() { values[Int(character)] = UInt8(value) }
    return values
  }
}

extension Base64.Alphabet {
  fileprivate var characters: [UInt8] {
    switch self {
    case .standard: Base64.standardCharacters
    case .url: Base64.urlCharacters
    }
  }

  fileprivate var values: [UInt8] {
    switch self {
    case .standard: Base64.standardValues
    case .url: Base64.urlValues
    }
  }
}

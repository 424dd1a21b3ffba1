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
        func character(_ bits: UInt32) -> UInt8 { characters[Int(bits & 63)] }
        for group in 0..<whole {
          let source = group * 3
          let bits =
            UInt32(bytes[source]) << 16 | UInt32(bytes[source + 1]) << 8 | UInt32(bytes[source + 2])
          let target = group * 4
          text[target] = character(bits >> 18)
          text[target + 1] = character(bits >> 12)
          text[target + 2] = character(bits >> 6)
          text[target + 3] = character(bits)
        }
        guard rest > 0 else { return }
        let bits = UInt32(bytes[whole * 3]) << 16 | (rest == 2 ? UInt32(bytes[whole * 3 + 1]) << 8 : 0)
        for place in 0..<tail {
          text[whole * 4 + place] =
            place <= rest ? character(bits >> UInt32(18 - 6 * place)) : UInt8(ascii: "=")
        }
      }
      count = whole * 4 + tail
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
    // Bit 7 is set in the value of a character outside the alphabet. All values are gathered here and looked at
    // once, and the bits of the last character that belong to no byte with them.
    var foreign: UInt32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: whole * 3 + max(rest - 1, 0)) { bytes, count in
      alphabet.values.withUnsafeBufferPointer { values in
        func value(_ place: Int) -> UInt32 { UInt32(values[Int(text[place])]) }
        for group in 0..<whole {
          let (first, second) = (value(group * 4), value(group * 4 + 1))
          let (third, fourth) = (value(group * 4 + 2), value(group * 4 + 3))
          foreign |= first | second | third | fourth
          bytes[group * 3] = UInt8(truncatingIfNeeded: first << 2 | second >> 4)
          bytes[group * 3 + 1] = UInt8(truncatingIfNeeded: second << 4 | third >> 2)
          bytes[group * 3 + 2] = UInt8(truncatingIfNeeded: third << 6 | fourth)
        }
        count = whole * 3
        guard rest > 0 else { return }
        let (first, second) = (value(whole * 4), value(whole * 4 + 1))
        let third = rest == 3 ? value(whole * 4 + 2) : 0
        foreign |= first | second | third
        let leftOver = rest == 3 ? third & 0x03 : second & 0x0f
        if leftOver != 0 { foreign |= invalid }
        bytes[count] = UInt8(truncatingIfNeeded: first << 2 | second >> 4)
        if rest == 3 { bytes[count + 1] = UInt8(truncatingIfNeeded: second << 4 | third >> 2) }
        count += rest - 1
      }
    }
    return foreign & invalid == 0 ? bytes : nil
  }

  private static let invalid: UInt32 = 0x80
  fileprivate static let standardCharacters = characters("+/")
  fileprivate static let urlCharacters = characters("-_")
  fileprivate static let standardValues = values(of: standardCharacters)
  fileprivate static let urlValues = values(of: urlCharacters)

  private static func characters(_ lastTwo: String) -> [UInt8] {
    Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(lastTwo)".utf8)
  }

  private static func values(of characters: [UInt8]) -> [UInt8] {
    var values = [UInt8](repeating: UInt8(invalid), count: 256)
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

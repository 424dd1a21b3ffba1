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
    // All bits of the whole text that say something is wrong are gathered here, and looked at once.
    var faults: UInt32 = 0
    let bytes = [UInt8](
      // Each group is written as four bytes, the last of which belongs to the next one.
      unsafeUninitializedCapacity: whole * 3 + max(rest - 1, 0) + 1
    ) { bytes, count in
      alphabet.places.withUnsafeBufferPointer { places in
        let target = UnsafeMutableRawBufferPointer(bytes)
        func bits(_ place: Int, _ group: Int) -> UInt32 {
          places[place * 256 + Int(text[group * 4 + place])]
        }
        for group in 0..<whole {
          let three = bits(0, group) | bits(1, group) | bits(2, group) | bits(3, group)
          faults |= three
          target.storeBytes(of: three.littleEndian, toByteOffset: group * 3, as: UInt32.self)
        }
        count = whole * 3
        guard rest > 0 else { return }
        let last = bits(0, whole) | bits(1, whole) | (rest == 3 ? bits(2, whole) : 0)
        faults |= last
        for _ in 1..<rest {
          bytes[count] = UInt8(truncatingIfNeeded: last >> UInt32((count - whole * 3) * 8))
          count += 1
        }
        // What the last character has beyond the last byte.
        if (last & 0xff_ffff) >> UInt32((rest - 1) * 8) != 0 { faults |= foreign }
      }
    }
    return faults & foreign == 0 ? bytes : nil
  }

  /// Set where a character is outside the alphabet.
  private static let foreign: UInt32 = 1 << 31
  fileprivate static let standardCharacters = characters("+/")
  fileprivate static let urlCharacters = characters("-_")
  fileprivate static let standardPlaces = places(of: standardCharacters)
  fileprivate static let urlPlaces = places(of: urlCharacters)

  private static func characters(_ lastTwo: String) -> [UInt8] {
    Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(lastTwo)".utf8)
  }

  /// What each byte of a text, as the first to fourth character of its group, has of the group's three bytes, the first of
  /// which is the lowest: 256 for each place.
  private static func places(of characters: [UInt8]) -> [UInt32] {
    var places = [UInt32](repeating: foreign, count: 4 * 256)
    for (value, character) in characters.enumerated() {
      for place in 0..<4 {
        places[place * 256 + Int(character)] = (UInt32(value) << UInt32(26 - 6 * place)).byteSwapped
      }
    }
    return places
  }
}

extension Base64.Alphabet {
  fileprivate var characters: [UInt8] {
    switch self {
    case .standard: Base64.standardCharacters
    case .url: Base64.urlCharacters
    }
  }

  fileprivate var places: [UInt32] {
    switch self {
    case .standard: Base64.standardPlaces
    case .url: Base64.urlPlaces
    }
  }
}

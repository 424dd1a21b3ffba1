/// A strict Base64 codec (RFC 4648): no foreign characters, line breaks or non-zero trailing bits.
///
/// Every accepted text is the only encoding of its bytes. A JWS can therefore be stored as bytes and rebuilt exactly,
/// and no second text with the same content is accepted.
public enum Base64 {
  /// The 64 characters and the padding.
  public enum Alphabet: Sendable {
    /// `+`, `/` and padding (RFC 4648, section 4): certificates in `x5c`.
    case standard
    /// `-`, `_` and no padding (RFC 4648, section 5; RFC 7515, section 2): the segments of a JWS.
    case url
  }

  /// Decodes a text; nil if it is not the exact encoding of any bytes.
  public static func decode(_ text: [UInt8], _ alphabet: Alphabet) -> [UInt8]? {
    text.withUnsafeBufferPointer { decode($0, alphabet) }
  }

  /// Decodes a text; nil if it is not the exact encoding of any bytes.
  public static func decode(_ text: String, _ alphabet: Alphabet) -> [UInt8]? {
    var text = text
    return text.withUTF8 { decode($0, alphabet) }
  }

  static func decode(_ text: ArraySlice<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
    text.withUnsafeBufferPointer { decode($0, alphabet) }
  }

  /// Encodes bytes as ASCII.
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

  /// Encodes bytes as a string.
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
    // Collects the error bits of the whole text for one check at the end.
    var faults: UInt32 = 0
    let bytes = [UInt8](
      // Each group is written as four bytes; the last one is overwritten by the next group.
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
        // The trailing bits of the last character must be zero.
        if (last & 0xff_ffff) >> UInt32((rest - 1) * 8) != 0 { faults |= foreign }
      }
    }
    return faults & foreign == 0 ? bytes : nil
  }

  /// Marks a character outside the alphabet.
  private static let foreign: UInt32 = 1 << 31
  fileprivate static let standardCharacters = characters("+/")
  fileprivate static let urlCharacters = characters("-_")
  fileprivate static let standardPlaces = places(of: standardCharacters)
  fileprivate static let urlPlaces = places(of: urlCharacters)

  private static func characters(_ lastTwo: String) -> [UInt8] {
    Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(lastTwo)".utf8)
  }

  /// The bits that each byte, as first to fourth character of its group, contributes to the group's three bytes (the
  /// first byte lowest): 256 entries for each place.
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

public import Foundation

/// A `Decodable` UUID that accepts only the form of ``Foundation/UUID/init(rfc9562:)``.
public struct StrictUUID: Codable, Sendable, Hashable {
  /// The UUID.
  public let value: UUID

  /// A UUID that was parsed.
  public init(_ value: UUID) {
    self.value = value
  }

  /// - Throws: `DecodingError.dataCorrupted` for any other form. `UUID` accepts some of them.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let value = UUID(rfc9562: try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "a UUID is expected")
    }
    self.value = value
  }

  /// Writes the UUID in lower case.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(value.uuidString.lowercased())
  }
}

extension UUID {
  /// Parses exactly 36 characters: hexadecimal digits of either case in groups of 8-4-4-4-12 (RFC 9562 §4).
  ///
  /// `UUID(uuidString:)` uses scanf(3), which accepts spaces, signs and `0x`, so it also accepts malformed UUIDs such as
  /// `-1112233-…`. It takes fourteen times as long.
  public init?(rfc9562 text: String) {
    var text = text
    guard let bytes = text.withUTF8({ Self.bytes(of: $0) }) else { return nil }
    self.init(uuid: bytes)
  }

  private static func bytes(of text: UnsafeBufferPointer<UInt8>) -> uuid_t? {
    guard text.count == 36 else { return nil }
    return withUnsafeTemporaryAllocation(byteCount: 16, alignment: 16) { bytes -> uuid_t? in
      var position = 0
      for index in 0..<16 {
        // After the 4th, 6th, 8th and 10th byte.
        if (4...10).contains(index), index.isMultiple(of: 2) {
          guard text[position] == UInt8(ascii: "-") else { return nil }
          position += 1
        }
        guard let high = hexValue(text[position]), let low = hexValue(text[position + 1]) else { return nil }
        bytes[index] = high << 4 | low
        position += 2
      }
      return bytes.load(as: uuid_t.self)
    }
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

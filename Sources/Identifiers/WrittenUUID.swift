public import FoundationEssentials

/// A UUID in a body that is decoded, in the form of ``Foundation/UUID/init(rfc9562:)``.
public struct WrittenUUID: Decodable, Sendable, Hashable {
  /// The UUID.
  public let value: UUID

  /// - Throws: `DecodingError.dataCorrupted` for any other form; `UUID` itself would take some.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let value = UUID(rfc9562: try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "a UUID is expected")
    }
    self.value = value
  }
}

public import Foundation

/// A `Decodable` UUID that accepts only the form of ``Foundation/UUID/init(rfc9562:)``.
public struct StrictUUID: Decodable, Sendable, Hashable {
  /// The UUID.
  public let value: UUID

  /// - Throws: `DecodingError.dataCorrupted` for any other form. `UUID` accepts some of them.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let value = UUID(rfc9562: try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "a UUID is expected")
    }
    self.value = value
  }
}

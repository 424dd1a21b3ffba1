import Foundation
import HTTP
import JSON
import JWTKit

/// A key set (RFC 7517 section 5) without the keys that cannot be read.
struct JWKSet {
  var keys: [JWK]
  /// Whether the set has no members at all, readable or not.
  var isEmpty: Bool

  /// Key types that verify a token; a symmetric key in a public set must not be accepted.
  private static let usableTypes: Set<String> = ["RSA", "EC", "OKP"]

  private struct Body: Decodable {
    var keys: [JSONValue]
  }

  init(json: [UInt8]) throws {
    let values = try JSONCoding.decode(Body.self, from: json).keys
    isEmpty = values.isEmpty
    keys = values.compactMap { value in
      guard case .object(let members) = value, case .string(let type)? = members["kty"],
        Self.usableTypes.contains(type), let data = try? JSONEncoder().encode(value)
      else { return nil }
      return try? JSONDecoder().decode(JWK.self, from: data)
    }
  }
}

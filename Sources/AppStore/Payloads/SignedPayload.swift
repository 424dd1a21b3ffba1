import Foundation
import JSON

/// The decoded payload of a JWS that Apple signs.
///
/// The properties have Apple's field names. Only identifying fields are required; the others may be missing. Unknown
/// fields stay in the raw bytes that `Signed` keeps.
///
/// `SignedDataVerifier` reads a payload as `JSONReadable`. The simulator writes payloads as `Encodable`, and tests compare
/// the reader with Foundation's `Decodable`.
public protocol SignedPayload: Codable, JSONReadable, Hashable, Sendable {
  /// The time of signing, at which the certificates must have been valid.
  var signedAt: Date { get }
}

extension UUID {
  /// The token of StoreKit if the app set none: all zeros.
  static let absentAppAccountToken = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
}

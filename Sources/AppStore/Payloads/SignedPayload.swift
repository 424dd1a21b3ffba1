import FoundationEssentials
import JSON

/// What Apple signs: the decoded payload of a JWS.
///
/// The properties bear Apple's own field names, so that each can be looked up in Apple's documentation under
/// the same word. Only what gives a payload its identity is required; everything else may be missing. Fields
/// that a type does not know are left in the raw bytes that `Signed` keeps.
///
/// `SignedDataVerifier` reads one as `JSONReadable`. It is `Codable` besides, with the same names, for whoever
/// keeps payloads or, as the simulator does, makes them.
public protocol SignedPayload: Codable, JSONReadable, Hashable, Sendable {
  /// When Apple signed it: the instant at which the certificates must have been valid.
  var signedAt: Date { get }
}

extension UUID {
  /// The token that StoreKit gives where the app set none: all zeros.
  static let absentAppAccountToken = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
}

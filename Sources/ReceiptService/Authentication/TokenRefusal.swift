/// A reason why an access token is refused, for clients, logs and metrics. The order is that of the checks.
enum TokenRefusal: String, Error, CaseIterable {
  /// The token is not a JWT with plain values.
  case malformed
  /// No secret or public keys are configured for the token's `alg`.
  case unsupportedAlgorithm = "unsupported_algorithm"
  /// The issuer's key set has no key with the token's `kid`.
  case unknownKey = "unknown_key"
  case badSignature = "bad_signature"
  /// The signature is right, but a claim is missing or of the wrong type: `exp` is not a number, say.
  case badClaims = "bad_claims"
  case wrongIssuer = "wrong_issuer"
  case wrongAudience = "wrong_audience"
  case expired
  /// The token's `nbf` lies in the future.
  case notYetValid = "not_yet_valid"
  /// The token names no user: its `sub` is not a UUID, or its role is `anon` or `service_role`.
  case noUser = "no_user"

  /// A sentence for `error_description` (RFC 6750 section 3: ASCII without quotes and backslashes).
  var sentence: String {
    switch self {
    case .malformed: "The access token is malformed."
    case .unsupportedAlgorithm: "The access token's algorithm is not accepted."
    case .unknownKey: "The access token is signed with an unknown key."
    case .badSignature: "The access token's signature is wrong."
    case .badClaims: "The access token has no exp, or a claim of the wrong type."
    case .wrongIssuer: "The access token is of another issuer."
    case .wrongAudience: "The access token is for another audience."
    case .expired: "The access token expired."
    case .notYetValid: "The access token is not valid yet."
    case .noUser: "The access token names no user."
    }
  }
}

import HTTP
import HTTPTypes
import PrometheusText
import Requests

/// A reason why an access token is refused, for clients, logs and metrics. The order is that of the checks.
enum TokenRefusal: String, Error, CaseIterable, LabelValue {
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

/// The error for an access token that is refused.
struct RefusedToken: Error, Equatable {
  var reason: TokenRefusal
  /// The claim that the configuration does not accept, for the log: `tokenIssuer` or `tokenAudience`. It is set
  /// only for a token whose signature is right: an attacker must not choose the text.
  var logFields: [String: String] = [:]

  private static let maximumLogged = 200

  init(_ reason: TokenRefusal) { self.reason = reason }

  init(_ reason: TokenRefusal, claims: UserClaims) {
    self.reason = reason
    switch reason {
    case .wrongIssuer: logFields["tokenIssuer"] = claims.iss.map { String($0.prefix(Self.maximumLogged)) }
    case .wrongAudience:
      logFields["tokenAudience"] = claims.aud.map {
        String($0.names.joined(separator: ", ").prefix(Self.maximumLogged))
      }
    default: break
    }
  }

  /// The refusal that comes last in the order of the checks: it says most about the token.
  static func mostTelling(_ refusals: [RefusedToken]) -> RefusedToken? {
    TokenRefusal.allCases.reversed().lazy
      .compactMap { reason in refusals.first { $0.reason == reason } }
      .first
  }
}

extension ServiceError {
  /// A token that is not valid. `error` and `error_description` are of RFC 6750 section 3; a request without a token
  /// gets neither.
  static func invalidToken(_ refusal: TokenRefusal) -> Problem {
    var problem = unauthenticated
    problem.detail = refusal.sentence
    problem.headers[.wwwAuthenticate] =
      "Bearer error=\"invalid_token\", error_description=\"\(refusal.sentence)\""
    return problem
  }
}

import Foundation
import Identifiers
import JWTKit

/// The claims of a user's access token (RFC 7519; Supabase documents its form under 'JWTs').
///
/// Plain types, because an attacker chooses the values: a bad value must only fail to decode.
struct UserClaims: JWTPayload {
  var sub: String?
  var iss: String?
  var aud: Audience?
  /// Seconds since 1970; RFC 7519 allows fractions.
  var exp: Double?
  var nbf: Double?
  var role: String?

  /// One name or several (RFC 7519 section 4.1.3).
  struct Audience: Codable, Sendable {
    var names: [String]

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let name = try? container.decode(String.self) {
        names = [name]
      } else {
        names = try container.decode([String].self)
      }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(names)
    }
  }

  /// Does nothing: ``user(of:at:)`` checks the claims, with the caller's clock.
  func verify(using algorithm: some JWTAlgorithm) async throws {}

  /// The user that the claims name, checked for this issuer at this instant.
  ///
  /// Supabase also signs tokens with the roles `anon` and `service_role`, which have no user.
  func user(of issuer: TokenRequirements, at instant: Date) throws(TokenRefusal) -> UUID {
    if let expected = issuer.issuer, iss != expected { throw .wrongIssuer }
    if let expected = issuer.audience, !(aud?.names.contains(expected) ?? false) { throw .wrongAudience }
    let now = instant.timeIntervalSince1970
    guard let exp else { throw .badClaims }
    guard exp > now else { throw .expired }
    if let nbf, nbf > now { throw .notYetValid }
    guard role != "anon", role != "service_role", let user = sub.flatMap({ UUID(rfc9562: $0) }) else {
      throw .noUser
    }
    return user
  }
}

/// The claims that an issuer's tokens must have; `nil` accepts any value.
struct TokenRequirements: Sendable, Hashable {
  var issuer: String?
  var audience: String?
}

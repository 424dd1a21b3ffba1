import FoundationEssentials
import Identifiers
import JWTKit

/// What a user's access token says (RFC 7519; Supabase's form stands in its documentation of JWTs).
///
/// Plain types of our own: a stranger chooses what stands in each, and none may do more than fail to decode.
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

  /// Nothing: the claims are judged by ``user(of:at:)``, with a clock that is handed in.
  func verify(using algorithm: some JWTAlgorithm) async throws {}

  /// The user, if the claims hold now for this issuer.
  ///
  /// Supabase signs tokens with the roles `anon` and `service_role` too; they are no user's.
  func user(of issuer: TokenRequirements, at instant: Date) -> UUID? {
    let now = instant.timeIntervalSince1970
    guard let exp, exp > now else { return nil }
    if let nbf, nbf > now { return nil }
    if let expected = issuer.issuer, iss != expected { return nil }
    if let expected = issuer.audience, !(aud?.names.contains(expected) ?? false) { return nil }
    if role == "anon" || role == "service_role" { return nil }
    return sub.flatMap { UUID(rfc9562: $0) }
  }
}

/// What an issuer's tokens must carry; `nil` for whatever it may be.
struct TokenRequirements: Sendable, Hashable {
  var issuer: String?
  var audience: String?
}

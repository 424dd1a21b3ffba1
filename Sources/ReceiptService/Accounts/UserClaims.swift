import FoundationEssentials
import JWTKit

/// What a user's access token says (RFC 7519; Supabase's form stands in its documentation of JWTs).
struct UserClaims: JWTPayload {
  var sub: String?
  var iss: String?
  var aud: AudienceClaim?
  var exp: ExpirationClaim?
  var nbf: NotBeforeClaim?
  var role: String?

  /// Nothing: the claims are judged by ``user(of:at:)``, with a clock that is handed in.
  func verify(using algorithm: some JWTAlgorithm) async throws {}

  /// The user, if the claims hold now for this issuer.
  ///
  /// Supabase signs tokens with the roles `anon` and `service_role` too; they are no user's.
  func user(of issuer: TokenRequirements, at instant: Date) -> UUID? {
    guard let exp, exp.value > instant else { return nil }
    if let nbf, nbf.value > instant { return nil }
    if let expected = issuer.issuer, iss != expected { return nil }
    if let expected = issuer.audience, !(aud?.value.contains(expected) ?? false) { return nil }
    if role == "anon" || role == "service_role" { return nil }
    return sub.flatMap { UUID(uuidString: $0) }
  }
}

/// What an issuer's tokens must carry; `nil` for whatever it may be.
struct TokenRequirements: Sendable, Hashable {
  var issuer: String?
  var audience: String?
}

import Crypto
import Foundation
import JWTKit
import Subscriptions

/// Verifies the access tokens of one issuer.
///
/// The algorithm decides which key is used: HS256 the shared secret, all others a public key. Otherwise an attacker
/// could sign with a public key as HMAC secret (algorithm confusion).
struct TokenVerifier: Sendable {
  private let requirements: TokenRequirements
  private let secret: JWTKeyCollection?
  private let publicKeys: PublicKeys?

  private static let publicAlgorithms: Set<String> = ["RS256", "ES256", "EdDSA"]

  init(requirements: TokenRequirements, secret: String?, publicKeys: PublicKeys?) async {
    self.requirements = requirements
    self.publicKeys = publicKeys
    if let secret {
      // HMAC pads a short key with zeros itself (RFC 2104 section 2), so the padding changes no signature. JWTKit traps on
      // shorter keys.
      let bytes = Array(secret.utf8)
      let zeros = [UInt8](repeating: 0, count: max(0, TokenIssuer.advisedSecretLength - bytes.count))
      self.secret = await JWTKeyCollection().add(
        hmac: HMACKey(key: SymmetricKey(data: bytes + zeros)), digestAlgorithm: .sha256)
    } else {
      self.secret = nil
    }
  }

  /// The user that a token names; `nil` for a token of another issuer, an invalid one, or one without a user.
  /// - Throws: ``Problem`` `auth_unavailable` where the issuer's keys cannot be fetched.
  func user(of token: String, at instant: Date) async throws -> UUID? {
    guard let header = TokenHeader(token: token),
      let keys = try await keys(for: header.algorithm, kid: header.keyID),
      let claims = try? await keys.verify(token, as: UserClaims.self)
    else { return nil }
    return claims.user(of: requirements, at: instant)
  }

  private func keys(for algorithm: String, kid: String?) async throws -> JWTKeyCollection? {
    if algorithm == "HS256" { return secret }
    guard Self.publicAlgorithms.contains(algorithm), let publicKeys else { return nil }
    return try await publicKeys.key(named: kid)
  }
}

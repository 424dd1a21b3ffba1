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
  private let secrets: [JWTKeyCollection]
  private let publicKeys: PublicKeys?

  private static let publicAlgorithms: Set<String> = ["RS256", "ES256", "EdDSA"]

  /// - Parameter secrets: HS256 secrets; a token signed with any of them is accepted.
  init(requirements: TokenRequirements, secrets: [String], publicKeys: PublicKeys?) async {
    self.requirements = requirements
    self.publicKeys = publicKeys
    var keys: [JWTKeyCollection] = []
    for secret in secrets {
      // HMAC pads a short key with zeros itself (RFC 2104 section 2), so the padding changes no signature. JWTKit traps on
      // shorter keys.
      let bytes = Array(secret.utf8)
      let zeros = [UInt8](repeating: 0, count: max(0, TokenIssuer.advisedSecretLength - bytes.count))
      keys.append(
        await JWTKeyCollection().add(
          hmac: HMACKey(key: SymmetricKey(data: bytes + zeros)), digestAlgorithm: .sha256))
    }
    self.secrets = keys
  }

  /// The user that a token names.
  /// - Throws: ``RefusedToken``; ``Problem`` `auth_unavailable` where the issuer's keys cannot be fetched.
  func user(of token: String, at instant: Date) async throws -> UUID {
    guard let header = TokenHeader(token: token) else { throw RefusedToken(.malformed) }
    var refusal = TokenRefusal.badSignature
    for keys in try await keys(for: header) {
      do {
        return try user(of: await keys.verify(token, as: UserClaims.self), at: instant)
      } catch let error as RefusedToken {
        throw error
      } catch let error as JWTError where error.errorType == .signatureVerificationFailed {
        continue
      } catch let error as JWTError where error.errorType == .malformedToken {
        // JWTKit decodes the claims after it has verified the signature.
        throw RefusedToken(.badClaims)
      } catch {
        refusal = .malformed
      }
    }
    throw RefusedToken(refusal)
  }

  private func user(of claims: UserClaims, at instant: Date) throws(RefusedToken) -> UUID {
    do {
      return try claims.user(of: requirements, at: instant)
    } catch {
      throw RefusedToken(error, claims: claims)
    }
  }

  /// The keys that may have signed the token: one public key, or all secrets.
  private func keys(for header: TokenHeader) async throws -> [JWTKeyCollection] {
    if header.algorithm == "HS256", !secrets.isEmpty { return secrets }
    guard Self.publicAlgorithms.contains(header.algorithm), let publicKeys else {
      throw RefusedToken(.unsupportedAlgorithm)
    }
    guard let key = try await publicKeys.key(named: header.keyID) else { throw RefusedToken(.unknownKey) }
    return [key]
  }
}

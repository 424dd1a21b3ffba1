import AppStore
import Crypto
import Foundation
import Identifiers
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
      // HMAC pads a short key with zeros itself (RFC 2104 section 2), so the padding changes no signature. JWTKit traps
      // on shorter keys.
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

/// The header of an access token that is not verified yet.
///
/// An attacker controls it, and lenient header parsers have caused forgeries and crashes. So only a flat object of
/// strings reaches the JWT library: no `crit`, no embedded keys, no numbers.
struct TokenHeader: Sendable, Equatable {
  var algorithm: String
  var keyID: String?

  /// Real tokens have one or two kilobytes.
  private static let maximumLength = 16_384

  /// - Returns: `nil` unless the token is three segments of strict base64url with such a header.
  init?(token: String) {
    let bytes = Array(token.utf8)
    guard bytes.count <= Self.maximumLength else { return nil }
    let segments = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard segments.count == 3, let header = Base64.decode(Array(segments[0]), .url),
      Base64.decode(Array(segments[1]), .url) != nil, Base64.decode(Array(segments[2]), .url) != nil,
      let members = try? JSONDecoder().decode([String: String].self, from: Data(header)),
      let algorithm = members["alg"], members["crit"] == nil
    else { return nil }
    self.algorithm = algorithm
    keyID = members["kid"]
  }
}

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

import Crypto
import Foundation
import JWTKit

/// Checks the bearer tokens of the App Store Server API.
struct ConnectTokenVerifier: Sendable {
  private let keyID: String
  private let issuerID: String
  private let keys: JWTKeyCollection
  private let clock: @Sendable () -> Date

  /// - Parameter clock: the real time, because callers make tokens in real time, whatever the store's clock shows.
  init(_ key: ConnectKey, clock: @escaping @Sendable () -> Date = { Date() }) async throws {
    keyID = key.keyID
    issuerID = key.issuerID
    self.clock = clock
    keys = JWTKeyCollection()
    await keys.add(
      ecdsa: try ES256PublicKey(pem: key.privateKey.publicKey.pemRepresentation),
      kid: JWKIdentifier(string: key.keyID))
  }

  /// The bundle id of a token that Apple would accept; nil for another. It must be ES256 with the right key, issuer and
  /// audience, not expired, and valid for at most 60 minutes.
  func bundleID(ofAuthorization authorization: String?) async -> String? {
    guard let authorization, authorization.hasPrefix("Bearer ") else { return nil }
    let token = Array(authorization.utf8.dropFirst("Bearer ".utf8.count))
    // The key determines the algorithm; the header must agree.
    guard let (header, _, _) = try? DefaultJWTParser().parse(token, as: ConnectClaims.self),
      header.alg == "ES256", header.kid == keyID,
      let claims = try? await keys.verify(token, as: ConnectClaims.self)
    else { return nil }
    let now = clock()
    // A minute of clock skew is allowed.
    let latest = max(claims.iat?.value ?? now, now).addingTimeInterval(3600 + 60)
    guard claims.iss.value == issuerID, claims.aud.value == ["appstoreconnect-v1"],
      claims.exp.value > now, claims.exp.value <= latest,
      (claims.iat?.value ?? now) <= now.addingTimeInterval(60)
    else { return nil }
    return claims.bid
  }
}

private struct ConnectClaims: JWTPayload {
  let iss: IssuerClaim
  let exp: ExpirationClaim
  let aud: AudienceClaim
  let iat: IssuedAtClaim?
  let bid: String

  // ConnectTokenVerifier checks the claims, because it has the clock.
  func verify(using _: some JWTAlgorithm) throws {}
}

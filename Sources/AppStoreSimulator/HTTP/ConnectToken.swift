import Crypto
import FoundationEssentials
import JWTKit

/// Checks the bearer tokens of the App Store Server API.
struct ConnectTokenVerifier: Sendable {
  private let keyID: String
  private let issuerID: String
  private let keys: JWTKeyCollection
  private let clock: @Sendable () -> Date

  /// - Parameter clock: real time, also where the store's own time is wound: the callers' tokens are made
  ///   in real time.
  init(_ key: ConnectKey, clock: @escaping @Sendable () -> Date = { Date() }) async throws {
    keyID = key.keyID
    issuerID = key.issuerID
    self.clock = clock
    keys = JWTKeyCollection()
    await keys.add(
      ecdsa: try ES256PublicKey(pem: key.privateKey.publicKey.pemRepresentation),
      kid: JWKIdentifier(string: key.keyID))
  }

  /// The bundle id that the token is for; nil if it is not a token that Apple would take: ES256 with the
  /// right key, issuer and audience, not expired and not good for more than 60 minutes.
  func bundleID(ofAuthorization authorization: String?) async -> String? {
    guard let authorization, authorization.hasPrefix("Bearer ") else { return nil }
    let token = Array(authorization.utf8.dropFirst("Bearer ".utf8.count))
    // The key decides how the signature is checked; the header must say the same.
    guard let (header, _, _) = try? DefaultJWTParser().parse(token, as: ConnectClaims.self),
      header.alg == "ES256", header.kid == keyID,
      let claims = try? await keys.verify(token, as: ConnectClaims.self)
    else { return nil }
    let now = clock()
    // A minute for clocks that disagree.
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

  // The verifier judges the claims, because it has the clock.
  func verify(using _: some JWTAlgorithm) throws {}
}

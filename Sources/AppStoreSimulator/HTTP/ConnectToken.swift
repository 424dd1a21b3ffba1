import Crypto
import Foundation
import JWTKit

/// An App Store Connect API key, with which a server signs its bearer tokens for the App Store Server API.
public struct ConnectKey: Sendable {
  /// The `kid` of the tokens: ten capital letters and digits.
  public let keyID: String

  /// The `iss` of the tokens: a UUID.
  public let issuerID: String

  let privateKey: P256.Signing.PrivateKey

  /// Makes a new key with a random key id and issuer id.
  public init() {
    let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789".utf8)
    var keyID: [UInt8] = []
    for _ in 0..<10 { keyID.append(alphabet[Int.random(in: 0..<alphabet.count)]) }
    self.init(
      keyID: String(decoding: keyID, as: UTF8.self), issuerID: UUID().uuidString.lowercased(),
      privateKey: P256.Signing.PrivateKey())
  }

  init(keyID: String, issuerID: String, privateKey: P256.Signing.PrivateKey) {
    self.keyID = keyID
    self.issuerID = issuerID
    self.privateKey = privateKey
  }

  /// The private key as PKCS #8 in PEM, the content of App Store Connect's `.p8` file.
  public var pem: String { privateKey.pemRepresentation + "\n" }
}

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

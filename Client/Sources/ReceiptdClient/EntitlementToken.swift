import Foundation

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

/// The claims of an entitlement token that was verified, besides its features.
final class Claims: Sendable {
  let tier: String?
  let status: String
  let isAccessGranted: Bool
  let iat: TimeInterval
  let exp: TimeInterval
  let validUntil: TimeInterval?
  /// The bytes of the payload, which has the features.
  let payload: Data

  /// `nil` if they are not the server's for this customer of this app.
  @inline(never) init?(_ payload: Data, app: String, customer: String) {
    guard let json = JSON(payload) else { return nil }
    guard json.text(of: "iss") == "receiptd", json.text(of: "aud") == app, json.text(of: "sub") == customer,
      let status = json.text(of: "status"), let isAccessGranted = json.flag(of: "isAccessGranted"),
      let iat = json.number(of: "iat"), let exp = json.number(of: "exp")
    else { return nil }
    tier = json.text(of: "tier")
    self.status = status
    self.isAccessGranted = isAccessGranted
    self.iat = iat
    self.exp = exp
    validUntil = json.number(of: "validUntil")
    self.payload = payload
  }
}

/// The server's public keys, by their ids.
final class KeySet: Sendable {
  /// The `x` of each key.
  private let keys: JSON
  /// When they were fetched, in seconds of the trusted time since 1970.
  let fetchedAt: TimeInterval

  /// No keys.
  init() {
    keys = .object([])
    fetchedAt = 0
  }

  /// Reads the response of `/.well-known/jwks.json`; `nil` without a key. Keys that it lacks are withdrawn.
  @inline(never) init?(_ response: JSON, at time: Date) {
    var keys: [JSON.Member] = []
    for key in response["keys"]?.list ?? [] {
      guard key.text(of: "kty") == "OKP", key.text(of: "crv") == "Ed25519", let kid = key.text(of: "kid"),
        let x = key["x"]
      else { continue }
      keys.append(JSON.Member(name: kid, value: x))
    }
    if keys.isEmpty { return nil }
    self.keys = .object(keys)
    fetchedAt = time.timeIntervalSince1970
  }

  /// Reads what ``json`` wrote.
  @inline(never) init?(_ kept: JSON) {
    guard let keys = kept["keys"], let fetchedAt = kept.number(of: "fetchedAt") else { return nil }
    self.keys = keys
    self.fetchedAt = fetchedAt
  }

  /// The form in the store.
  var json: JSON { .members(("keys", keys), ("fetchedAt", .number(fetchedAt))) }

  /// Why a token is not accepted.
  enum Refusal: Error {
    /// The key set does not have the key. It may be new.
    case unknownKey
    /// Not signed by the server for this customer of this app.
    case notGenuine
  }

  /// Verifies everything but the end. Algorithm, issuer, app and customer are pinned.
  @inline(never) func verify(_ token: String, app: String, customer: String) throws(Refusal) -> Claims {
    let parts = token.components(separatedBy: ".")
    guard parts.count == 3, let head = Base64URL.data(parts[0]), let payload = Base64URL.data(parts[1]),
      let signature = Base64URL.data(parts[2]), let header = JSON(head), header.text(of: "alg") == "EdDSA",
      let kid = header.text(of: "kid")
    else { throw .notGenuine }
    guard let x = keys[kid]?.text else { throw .unknownKey }
    guard let x = Base64URL.data(x), let key = try? Curve25519.Signing.PublicKey(rawRepresentation: x),
      key.isValidSignature(signature, for: "\(parts[0]).\(parts[1])".bytes),
      let claims = Claims(payload, app: app, customer: customer)
    else { throw .notGenuine }
    return claims
  }
}

/// The member `features` of a token's payload, in the app's type.
struct FeaturesMember<Features: Decodable>: Decodable {
  let features: Features

  init(from decoder: any Decoder) throws {
    features = try decoder.container(keyedBy: JSON.Name.self).decode(
      Features.self, forKey: JSON.Name(stringValue: "features"))
  }
}

/// A verified entitlement in memory. Only the token is believed; it is verified again at each launch.
final class Held: Sendable {
  let token: String
  let claims: Claims
  let features: AnyFeatures
  let pairing: Pairing?
  let everHadAccess: Bool

  init(token: String, claims: Claims, features: AnyFeatures, pairing: Pairing?, everHadAccess: Bool) {
    self.token = token
    self.claims = claims
    self.features = features
    self.pairing = pairing
    self.everHadAccess = everHadAccess
  }

  /// The form in the store.
  var json: JSON {
    .members(("token", .text(token)), ("pairing", pairing?.json), ("everHadAccess", .flag(everHadAccess)))
  }
}

/// A digest as text, for the names of files.
enum SHA256Hex {
  @inline(never) static func of(_ text: String) -> String {
    var hex = ""
    for byte in SHA256.hash(data: text.bytes) {
      hex += String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
    }
    return hex
  }
}

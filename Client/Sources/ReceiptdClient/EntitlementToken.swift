import Foundation

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

/// The claims of an entitlement token, besides its features.
struct Claims: Codable, Sendable, Hashable {
  var iss: String
  var aud: String
  var sub: String
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var iat: TimeInterval
  var exp: TimeInterval
  var validUntil: TimeInterval?
}

/// The server's public keys, by their ids.
struct KeySet: Codable, Sendable {
  private(set) var keys: [String: Data] = [:]
  /// When they were fetched, in seconds of the trusted time since 1970.
  private(set) var fetchedAt: TimeInterval = 0

  init() {}

  private struct Wire: Decodable {
    struct Key: Decodable {
      var kty: String
      var kid: String?
      var crv: String?
      var x: String?
    }
    var keys: [Key]
  }

  /// Reads the response of `/.well-known/jwks.json`. Keys that it lacks are withdrawn.
  init(_ response: Data, at time: Date) throws {
    for key in try JSONDecoder().decode(Wire.self, from: response).keys
    where key.kty == "OKP" && key.crv == "Ed25519" {
      guard let kid = key.kid, let x = key.x.flatMap(Base64URL.data) else { continue }
      keys[kid] = x
    }
    fetchedAt = time.timeIntervalSince1970
  }

  /// Why a token is not accepted.
  enum Refusal: Error, Hashable {
    /// The key set does not have the key. It may be new.
    case unknownKey
    /// Not signed by the server for this customer of this app.
    case notGenuine
  }

  private struct Header: Decodable {
    var alg: String
    var kid: String
  }

  /// Verifies everything but the end. Algorithm, issuer, app and customer are pinned.
  /// - Returns: the claims, and the bytes of the payload for ``features(_:in:)``.
  func verify(_ token: String, app: String, customer: String) throws -> (claims: Claims, payload: Data) {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    let segments = parts.compactMap { Base64URL.data($0) }
    guard parts.count == 3, segments.count == 3,
      let header = try? JSONDecoder().decode(Header.self, from: segments[0]), header.alg == "EdDSA"
    else { throw Refusal.notGenuine }
    guard let x = keys[header.kid] else { throw Refusal.unknownKey }
    guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: x),
      key.isValidSignature(segments[2], for: Data("\(parts[0]).\(parts[1])".utf8)),
      let claims = try? JSONDecoder().decode(Claims.self, from: segments[1]),
      claims.iss == "receiptd", claims.aud == app, claims.sub == customer
    else { throw Refusal.notGenuine }
    return (claims, segments[1])
  }

  /// Reads the features of a verified payload.
  static func features<Features: Decodable>(_ type: Features.Type, in payload: Data) throws -> Features {
    try JSONDecoder().decode(FeaturesMember<Features>.self, from: payload).features
  }

  private struct FeaturesMember<Features: Decodable>: Decodable {
    var features: Features
  }
}

/// The kept entitlement of one customer. Only the token is believed; it is verified again at each launch.
struct KeptEntitlement: Codable, Sendable {
  var token: String
  var pairing: Pairing?
  var everHadAccess: Bool
}

/// A verified entitlement in memory.
struct Held<Features: Codable & Sendable>: Sendable {
  var claims: Claims
  var features: Features
  var kept: KeptEntitlement
  /// Whether the server's last answer arrived in this process.
  var isFresh: Bool

  func entitlement(at now: Date) -> Entitlement<Features>? {
    guard now.timeIntervalSince1970 < claims.exp else { return nil }
    return Entitlement(
      features: features, tier: claims.tier, status: EntitlementStatus(rawValue: claims.status),
      isAccessGranted: claims.isAccessGranted,
      validUntil: claims.validUntil.map { Date(timeIntervalSince1970: $0) },
      offlineGraceUntil: claims.isAccessGranted ? Date(timeIntervalSince1970: claims.exp) : nil,
      pairing: kept.pairing, everHadAccess: kept.everHadAccess, source: isFresh ? .server : .cache,
      verifiedAt: Date(timeIntervalSince1970: claims.iat))
  }
}

/// Base64url without padding (RFC 4648 section 5).
enum Base64URL {
  static func data(_ text: some StringProtocol) -> Data? {
    let base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4))
  }

  static func string(_ data: Data) -> String {
    data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
      .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
  }
}

/// A digest as text, for the names of files.
enum SHA256Hex {
  static func of(_ text: String) -> String {
    SHA256.hash(data: Data(text.utf8)).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
      .joined()
  }
}

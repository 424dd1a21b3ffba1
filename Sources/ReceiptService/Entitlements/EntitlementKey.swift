import AppStore
import Crypto
import Foundation

/// An Ed25519 key that signs entitlement tokens (JOSE: RFC 8037).
struct EntitlementKey: Sendable, CustomStringConvertible {
  /// The public key for the key set.
  let published: PublishedKey
  private let key: Curve25519.Signing.PrivateKey
  /// The header segment of every token that this key signs, with its dot.
  private let head: [UInt8]

  /// The key id: the thumbprint of the public key.
  var kid: String { published.kid }

  init(_ key: Curve25519.Signing.PrivateKey) {
    self.key = key
    published = PublishedKey(x: Base64.string(Array(key.publicKey.rawRepresentation), .url))
    // Base64url needs no JSON escapes.
    let header = #"{"alg":"EdDSA","kid":"\#(published.kid)","typ":"JWT"}"#
    head = Base64.encode(Array(header.utf8), .url) + [UInt8(ascii: ".")]
  }

  /// - Parameter bytes: the 32 bytes of the private key (RFC 8032 section 5.1.5).
  init(bytes: [UInt8]) throws { self.init(try Curve25519.Signing.PrivateKey(rawRepresentation: bytes)) }

  /// The private key, for the database only.
  var bytes: [UInt8] { Array(key.rawRepresentation) }

  /// A compact JWS (RFC 7515 section 3.1).
  func sign(_ payload: [UInt8]) throws -> String {
    var token = head
    token.reserveCapacity(head.count + payload.count * 4 / 3 + 96)
    token += Base64.encode(payload, .url)
    let signature = try key.signature(for: token)
    token.append(UInt8(ascii: "."))
    token += Base64.encode(Array(signature), .url)
    return String(decoding: token, as: UTF8.self)
  }

  /// Only the id, so that a log line cannot leak the key.
  var description: String { kid }
}

import AppStore
import Crypto
import FoundationEssentials
import JWTKit

/// A key that signs entitlement tokens: Ed25519, as JOSE has it (RFC 8037).
struct EntitlementKey: Sendable, CustomStringConvertible {
  /// The public half as it is published.
  let published: PublishedKey
  private let key: Curve25519.Signing.PrivateKey
  /// The first segment of every token that this key signs, and its dot.
  private let head: [UInt8]

  /// Its name: the thumbprint of its public half, so that nobody has to choose one.
  var kid: String { published.kid }

  init(_ key: Curve25519.Signing.PrivateKey) {
    self.key = key
    published = PublishedKey(x: Base64.string(Array(key.publicKey.rawRepresentation), .url))
    // Nothing in it needs an escape.
    let header = #"{"alg":"EdDSA","kid":"\#(published.kid)","typ":"JWT"}"#
    head = Base64.encode(Array(header.utf8), .url) + [UInt8(ascii: ".")]
  }

  /// - Parameter bytes: the 32 bytes of the private key (RFC 8032 section 5.1.5).
  init(bytes: [UInt8]) throws { self.init(try Curve25519.Signing.PrivateKey(rawRepresentation: bytes)) }

  /// - Parameter pem: PKCS #8 (RFC 8410), as `openssl genpkey -algorithm ed25519` writes it.
  init(pem: String) throws { try self.init(bytes: Array(EdDSA.PrivateKey(pem: pem).rawRepresentation)) }

  /// What goes into the database, and nowhere else.
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

  /// Only the name: a key that is printed by mistake is not given away.
  var description: String { kid }
}

/// A public key in a key set (RFC 7517; RFC 8037 section 2).
struct PublishedKey: Encodable, Sendable {
  let kty = "OKP"
  let crv = "Ed25519"
  let alg = "EdDSA"
  let use = "sig"
  /// The thumbprint (RFC 7638): SHA-256 of the members that make the key, in alphabetical order.
  let kid: String
  /// The public key, base64url.
  let x: String

  init(x: String) {
    self.x = x
    let members = #"{"crv":"Ed25519","kty":"OKP","x":"\#(x)"}"#
    kid = Base64.string(Array(SHA256.hash(data: Array(members.utf8))), .url)
  }
}

import AppStore
import Crypto
import Foundation

/// An Ed25519 key that signs entitlement tokens (JOSE: RFC 8037).
package struct EntitlementKey: Sendable, CustomStringConvertible {
  /// The public key for the key set.
  let published: PublishedKey
  private let key: Curve25519.Signing.PrivateKey
  /// The header segment of every token that this key signs, with its dot.
  private let head: [UInt8]

  /// The key id: the thumbprint of the public key.
  package var kid: String { published.kid }

  package init(_ key: Curve25519.Signing.PrivateKey) {
    self.key = key
    published = PublishedKey(x: Base64.string(Array(key.publicKey.rawRepresentation), .url))
    // Base64url needs no JSON escapes.
    let header = #"{"alg":"EdDSA","kid":"\#(published.kid)","typ":"JWT"}"#
    head = Base64.encode(Array(header.utf8), .url) + [UInt8(ascii: ".")]
  }

  /// - Parameter bytes: the 32 bytes of the private key (RFC 8032 section 5.1.5).
  package init(bytes: [UInt8]) throws {
    self.init(try Curve25519.Signing.PrivateKey(rawRepresentation: bytes))
  }

  /// The private key, for the database only.
  package var bytes: [UInt8] { Array(key.rawRepresentation) }

  /// A compact JWS (RFC 7515 section 3.1).
  package func sign(_ payload: [UInt8]) throws -> String {
    var token = head
    token.reserveCapacity(head.count + payload.count * 4 / 3 + 96)
    token += Base64.encode(payload, .url)
    let signature = try key.signature(for: token)
    token.append(UInt8(ascii: "."))
    token += Base64.encode(Array(signature), .url)
    return String(decoding: token, as: UTF8.self)
  }

  /// Only the id, so that a log line cannot leak the key.
  package var description: String { kid }
}

/// A public key in a key set (RFC 7517; RFC 8037 section 2).
struct PublishedKey: Encodable, Sendable {
  let kty = "OKP"
  let crv = "Ed25519"
  let alg = "EdDSA"
  let use = "sig"
  /// The thumbprint (RFC 7638): SHA-256 of the key's required members in alphabetical order.
  let kid: String
  /// The public key, base64url.
  let x: String

  init(x: String) {
    self.x = x
    let members = #"{"crv":"Ed25519","kty":"OKP","x":"\#(x)"}"#
    kid = Base64.string(Array(SHA256.hash(data: Array(members.utf8))), .url)
  }
}

/// The signing keys of entitlement tokens: selects the key that signs at an instant, and the keys to publish.
///
/// A new key is published for ``lead`` before it signs, so that cached key sets contain it by then. The previous key
/// stays published until its last token has expired.
package struct EntitlementKeyRing: Sendable {
  package struct Entry: Sendable {
    package var key: EntitlementKey
    /// When it begins to sign; it ends when the next key begins.
    var signsFrom: Date
  }

  /// How long a key is published before it signs: longer than a server needs to read it (``EntitlementKeyRefresh``)
  /// and a cache holds the key set (``KeySetResponse``).
  package static let lead: TimeInterval = 3_600

  /// In the order in which they sign.
  private let entries: [Entry]
  /// How long a key stays published after the next one begins to sign, in seconds; `nil` for no end.
  private let retention: TimeInterval?

  /// Creates a key ring of the keys in the database.
  /// - Parameter lifetime: the longest lifetime of a token, in seconds; `nil` for no end.
  package init(_ entries: [Entry], lifetime: TimeInterval?) {
    self.entries = entries.sorted { ($0.signsFrom, $0.key.kid) < ($1.signsFrom, $1.key.kid) }
    // One more day for clock differences and for servers that read the new key late.
    retention = lifetime.map { $0 + 86_400 }
  }

  /// Creates a key ring of key files: the first one signs, all are published.
  package init(files: [EntitlementKey]) {
    entries = files.reversed().map { Entry(key: $0, signsFrom: .distantPast) }
    retention = nil
  }

  /// The key that signs; `nil` without keys.
  package func signing(at instant: Date) -> EntitlementKey? {
    // The clock of the server that created the first key may be ahead of this server's.
    (entries.last { $0.signsFrom <= instant } ?? entries.first)?.key
  }

  /// The keys to publish, newest first.
  func published(at instant: Date) -> [EntitlementKey] {
    entries.indices.reversed().filter { index in
      guard let retention, index + 1 < entries.count else { return true }
      return instant < entries[index + 1].signsFrom + retention
    }.map { entries[$0].key }
  }
}

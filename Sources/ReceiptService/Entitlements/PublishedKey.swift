import AppStore
import Crypto

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

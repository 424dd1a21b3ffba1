import Crypto
import Foundation

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

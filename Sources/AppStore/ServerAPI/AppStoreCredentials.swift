import JWTKit

/// An App Store Connect key that may call the App Store Server API.
public struct AppStoreCredentials: Sendable {
  /// The reasons why a key cannot be used.
  public enum Failure: Error, Hashable, Sendable {
    /// The file is not PEM of a P-256 private key, the form of App Store Connect's `.p8` files.
    case notAPrivateKey
    /// The key id or the issuer id is empty.
    case emptyIdentifier
  }

  let key: ES256PrivateKey
  let keyID: String
  let issuerID: String

  /// - Parameters:
  ///   - privateKey: the content of the `.p8` file.
  ///   - keyID: the key's id.
  ///   - issuerID: the issuer id of the App Store Connect account.
  public init(privateKey: String, keyID: String, issuerID: String) throws(Failure) {
    guard !keyID.isEmpty, !issuerID.isEmpty else { throw .emptyIdentifier }
    do {
      key = try ES256PrivateKey(pem: privateKey)
    } catch {
      throw .notAPrivateKey
    }
    self.keyID = keyID
    self.issuerID = issuerID
  }
}

import Foundation
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

/// The bearer token of one app: made once, shared by all requests, and renewed before it expires.
actor BearerTokens {
  /// The lifetime of a token. Apple allows up to 60 minutes.
  static let lifetime: TimeInterval = 20 * 60
  /// The time for which a token is used. The rest covers requests under way and clock skew.
  static let use: TimeInterval = lifetime * 0.8

  private struct Token {
    let text: String
    let issued: Date
  }

  /// The claims of Apple's "Generating JSON Web Tokens for API requests".
  private struct Claims: JWTPayload {
    let iss: String
    let iat: Int64
    let exp: Int64
    let aud = "appstoreconnect-v1"
    let bid: String

    enum CodingKeys: String, CodingKey { case iss, iat, exp, aud, bid }

    func verify(using algorithm: some JWTAlgorithm) {}
  }

  private let credentials: AppStoreCredentials
  private let bundleID: String
  private let now: @Sendable () -> Date
  private var current: Token?
  private var underWay: Task<Token, any Error>?

  init(credentials: AppStoreCredentials, bundleID: String, now: @escaping @Sendable () -> Date) {
    self.credentials = credentials
    self.bundleID = bundleID
    self.now = now
  }

  /// Returns the token. Concurrent callers wait for one renewal.
  func token() async throws -> String {
    let now = now()
    // After the clock was set back, a token from the future would be used longer than Apple allows.
    if let current, now >= current.issued, now < current.issued + Self.use { return current.text }
    let task =
      underWay
      ?? Task {
        defer { underWay = nil }
        let made = try await makeToken(at: now)
        current = made
        return made
      }
    underWay = task
    return try await task.value.text
  }

  private func makeToken(at now: Date) async throws -> Token {
    let issued = Int64(now.timeIntervalSince1970)
    let claims = Claims(
      iss: credentials.issuerID, iat: issued, exp: issued + Int64(Self.lifetime), bid: bundleID)
    let keys = await JWTKeyCollection().add(ecdsa: credentials.key)
    let text = try await keys.sign(claims, kid: nil, header: ["kid": .string(credentials.keyID)])
    return Token(text: text, issued: now)
  }
}

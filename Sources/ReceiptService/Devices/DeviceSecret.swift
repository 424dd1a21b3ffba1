import AppStore
import Crypto
import Foundation
import HTTP
import HTTPTypes

/// The secret that a device sends in the header `Receiptd-Device-Secret`: 32 random bytes. Only a hash is stored.
struct DeviceSecret: Sendable {
  /// SHA-256 without salt or stretching is enough, because the bytes are random.
  private let digest: SHA256Digest

  /// The bytes for the column `secret_hash`.
  var hash: [UInt8] { Array(digest) }

  /// - Returns: `nil` for a request without a secret.
  /// - Throws: 400 `invalid_request` for a malformed one.
  init?(of request: Request) throws(Problem) {
    guard let name = Self.field, let text = request.headers[name] else { return nil }
    guard let bytes = Base64.decode(text, .url), bytes.count == 32 else {
      throw .invalidRequest("'Receiptd-Device-Secret' must be 32 bytes in base64url without padding.")
    }
    digest = SHA256.hash(data: bytes)
  }

  /// Compares in constant time.
  func matches(_ hash: [UInt8]) -> Bool { digest == hash }

  private static let field = HTTPField.Name("Receiptd-Device-Secret")
}

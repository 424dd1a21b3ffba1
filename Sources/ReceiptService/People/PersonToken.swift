import AppStore
import Crypto

/// The token of a person: a prefix that secret scanners find, and 32 random bytes.
///
/// People choose no passphrases: a token of 256 random bits cannot be guessed, so SHA-256 protects it as well as a slow hash
/// protects a passphrase, one lookup by an index finds it, and each request costs microseconds.
struct PersonToken: Sendable {
  static let prefix = "receiptd_"
  private static let length = 32

  /// The text, to be shown once.
  let text: String

  /// A new token.
  init() {
    let key = SymmetricKey(size: SymmetricKeySize(bitCount: Self.length * 8))
    text = Self.prefix + Base64.string(key.withUnsafeBytes { Array($0) }, .url)
  }

  /// - Returns: `nil` for a text that no token has.
  init?(_ text: String) {
    guard text.hasPrefix(Self.prefix),
      Base64.decode(String(text.dropFirst(Self.prefix.count)), .url)?.count == Self.length
    else { return nil }
    self.text = text
  }

  /// The value of the column `token_hash`.
  var hash: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

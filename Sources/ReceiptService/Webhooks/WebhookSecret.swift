import Crypto
import FoundationEssentials

/// The secrets that an endpoint's events are signed with: several while one replaces another.
struct WebhookSecrets: Sendable {
  private let keys: [SymmetricKey]

  /// What is wrong with a secret; never the secret itself.
  enum Failure: Error {
    case none
    case noPrefix
    case notBase64
    case length(Int)
  }

  /// - Parameter text: `whsec_` and the base64 of 24 to 64 bytes (Standard Webhooks 1.0, "Signature scheme");
  ///   several with spaces or commas between them, the new one first.
  init(_ text: String) throws(Failure) {
    var keys: [SymmetricKey] = []
    for secret in text.split(whereSeparator: { $0 == " " || $0 == "," }) {
      guard secret.hasPrefix(Self.prefix) else { throw .noPrefix }
      guard let bytes = Data(base64Encoded: String(secret.dropFirst(Self.prefix.count))) else {
        throw .notBase64
      }
      guard Self.length.contains(bytes.count) else { throw .length(bytes.count) }
      keys.append(SymmetricKey(data: bytes))
    }
    guard !keys.isEmpty else { throw .none }
    self.keys = keys
  }

  private static let prefix = "whsec_"
  private static let length = 24...64

  /// The field `webhook-signature`: for each secret `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`.
  func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
    let content = Array("\(id).\(timestamp).".utf8) + body
    return keys.map { key in
      "v1," + Data(HMAC<SHA256>.authenticationCode(for: content, using: key)).base64EncodedString()
    }.joined(separator: " ")
  }
}

extension WebhookSecrets.Failure {
  /// A phrase for the problem that names the setting.
  var reason: String {
    switch self {
    case .none: "is empty"
    case .noPrefix: "must be whsec_ and base64"
    case .notBase64: "is not base64 after whsec_"
    case .length(let count): "must hold 24 to 64 bytes, holds \(count)"
    }
  }
}

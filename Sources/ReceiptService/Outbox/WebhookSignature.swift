import Configuration
import Crypto
import Foundation
import Subscriptions

/// The secrets that sign an endpoint's events; several while one replaces another.
struct WebhookSecrets: Sendable {
  private let keys: [SymmetricKey]

  /// The reason why a secret is invalid, without the secret.
  enum Failure: Error {
    case none
    case noPrefix
    case notBase64
    case length(Int)
  }

  /// - Parameter text: `whsec_` and the base64 of 24 to 64 bytes (Standard Webhooks 1.0, "Signature scheme");
  ///   several are separated by spaces or commas, the new one first.
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

extension WebhookEndpoint {
  /// Reads the secrets from the environment.
  func secrets(in environment: [String: String]) throws(ConfigurationProblem) -> WebhookSecrets {
    let variable = secretEnvironmentVariable
    guard let text = environment[variable], !text.isEmpty else {
      throw ConfigurationProblem(variable, "is not set; the webhook \(name) needs it")
    }
    do throws(WebhookSecrets.Failure) {
      return try WebhookSecrets(text)
    } catch {
      throw ConfigurationProblem(variable, error.reason)
    }
  }
}

extension WebhookSecrets.Failure {
  /// The reason as the end of an error message that begins with the setting's name.
  var reason: String {
    switch self {
    case .none: "is empty"
    case .noPrefix: "must be whsec_ and the base64 of 24 to 64 bytes"
    case .notBase64: "is not base64 after whsec_"
    case .length(let count): "must hold 24 to 64 bytes, holds \(count)"
    }
  }
}

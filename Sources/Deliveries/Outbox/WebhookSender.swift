import Configuration
import Crypto
import Curl
import Foundation
import HTTP
import HTTPTypes
import JSON
import Ledger
import Subscriptions
import Work

/// Posts customers' states, lifecycle events or forwarded notifications to an endpoint (Standard Webhooks 1.0).
struct WebhookSender: OutboxSender {
  let endpoint: WebhookEndpoint
  let secrets: WebhookSecrets
  /// A client that refuses private addresses, unless the endpoint allows them.
  let client: CurlClient
  let clock: ServiceClock

  let batchSize = Self.concurrency
  let timeout: TimeInterval = 15

  /// The number of concurrent requests to one endpoint.
  static let concurrency = 16

  /// The limit of Standard Webhooks 1.0 (20 kB). Only the features of an event have no limit of their own.
  static let maximumBodyLength = 20_000

  /// Reads the secrets from the environment.
  init(
    _ endpoint: WebhookEndpoint, environment: [String: String], client: CurlClient, clock: ServiceClock
  ) throws(ConfigurationProblem) {
    secrets = try endpoint.secrets(in: environment)
    self.endpoint = endpoint
    self.client = client
    self.clock = clock
  }

  func bytes(of content: OutboxContent) throws -> [UInt8] {
    switch content {
    case .state(let state): JSONWriter.bytes(of: WebhookEvent.Content(state))
    case .event(let event): JSONWriter.bytes(of: event)
    case .notification(let notification): JSONWriter.bytes(of: notification)
    }
  }

  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    let results = await withTaskGroup(of: (Int, (DeliveryOutcome, DestinationProblem?)).self) { group in
      for (index, message) in messages.enumerated() {
        group.addTask { (index, await send(message)) }
      }
      return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    let problems = results.values.compactMap(\.1)
    return Delivery(
      outcomes: messages.indices.map { results[$0]?.0 ?? .untried },
      problem: problems.first(where: \.isGone) ?? problems.first)
  }

  private func send(_ message: OutboxMessage) async -> (DeliveryOutcome, DestinationProblem?) {
    do {
      let request = request(message)
      let length = request.body?.count ?? 0
      // The App Store's own limits hold for its notifications.
      if case .state = message.content, length >= Self.maximumBodyLength {
        return (
          .refused("the event has \(length) bytes; the limit is 20 kB: shorten the app's features"), nil
        )
      }
      let response = try await client.send(request)
      return judge(response.status, retryAfter: response.headers.retryAfterSeconds)
    } catch CurlError.cancelled, CurlError.shutDown, CurlError.busy {
      return (.untried, nil)
    } catch {
      return (.failed(error.message), .unavailable(error.message))
    }
  }

  private func judge(_ status: Int, retryAfter: TimeInterval?) -> (DeliveryOutcome, DestinationProblem?) {
    let reason = "HTTP \(status)"
    switch status {
    case 200..<300: return (.delivered, nil)
    // The rows stay, and are sent when support reopens the endpoint.
    case 410: return (.untried, .gone("HTTP 410 Gone"))
    case 429, 502, 503, 504:
      return (.failed(reason, after: retryAfter), .unavailable(reason, after: retryAfter))
    default: return (.failed(reason, after: retryAfter), nil)
    }
  }

  private func request(_ message: OutboxMessage) -> CurlRequest {
    let (id, body) = message.webhook
    let timestamp = Int64(clock.now().timeIntervalSince1970)
    var headers: HTTPFields = [.contentType: "application/json"]
    headers[Self.idField] = id
    headers[Self.timestampField] = "\(timestamp)"
    headers[Self.signatureField] = secrets.signature(id: id, timestamp: timestamp, body: body)
    return CurlRequest(
      method: .post, url: endpoint.url, headers: headers.traced, body: body, timeout: .seconds(timeout),
      connectTimeout: .seconds(5), maximumResponseLength: 64 << 10)
  }

  // Never `accept`: these are tokens as RFC 9110 defines them.
  private static let idField = HTTPField.Name("webhook-id") ?? .accept
  private static let timestampField = HTTPField.Name("webhook-timestamp") ?? .accept
  private static let signatureField = HTTPField.Name("webhook-signature") ?? .accept
}

extension OutboxMessage {
  /// The `webhook-id` and the body. An id has one body for good, on every retry, also after a restore of the database has
  /// set back the numbers.
  fileprivate var webhook: (id: String, body: [UInt8]) {
    switch content {
    case .state(let state):
      // The change of the row has one content; another state is another change.
      Self.numbered(
        "msg_\(id)_\(change)",
        JSONWriter.bytes(of: WebhookEvent(timestamp: changedAt, data: WebhookEvent.Content(state))))
    case .event(let event): (event.id.uuidString.lowercased(), JSONWriter.bytes(of: event))
    case .notification(let notification):
      (notification.uuid.uuidString.lowercased(), JSONWriter.bytes(of: notification))
    }
  }

  private static func numbered(_ number: String, _ body: [UInt8]) -> (id: String, body: [UInt8]) {
    let digest = SHA256.hash(data: body).prefix(4).map { String(format: "%02x", $0) }.joined()
    return ("\(number)_\(digest)", body)
  }
}

/// The secrets that sign an endpoint's events; several while one replaces another.
package struct WebhookSecrets: Sendable {
  private let keys: [SymmetricKey]

  /// The reason why a secret is invalid, without the secret.
  package enum Failure: Error {
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
  package func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
    let content = Array("\(id).\(timestamp).".utf8) + body
    return keys.map { key in
      "v1," + Data(HMAC<SHA256>.authenticationCode(for: content, using: key)).base64EncodedString()
    }.joined(separator: " ")
  }
}

extension WebhookEndpoint {
  /// Reads the secrets from the environment.
  package func secrets(in environment: [String: String]) throws(ConfigurationProblem) -> WebhookSecrets {
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
  package var reason: String {
    switch self {
    case .none: "is empty"
    case .noPrefix: "must be whsec_ and the base64 of 24 to 64 bytes"
    case .notBase64: "is not base64 after whsec_"
    case .length(let count): "must hold 24 to 64 bytes, holds \(count)"
    }
  }
}

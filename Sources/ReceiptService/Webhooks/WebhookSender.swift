import Curl
import FoundationEssentials
import HTTP
import HTTPTypes
import JSON
import Subscriptions

/// Posts customers' states to an endpoint (Standard Webhooks 1.0).
struct WebhookSender: OutboxSender {
  let endpoint: WebhookEndpoint
  let secrets: WebhookSecrets
  /// Refuses private addresses, unless the endpoint may be at one.
  let client: CurlClient
  let clock: ServiceClock

  let batchSize = Self.concurrency
  let timeout: TimeInterval = 15

  /// How many events are on their way to one endpoint at once.
  static let concurrency = 16

  /// Standard Webhooks 1.0: payloads stay under 20 kB, because receivers need not take more. Of an event only the features
  /// have no bound of their own.
  static let maximumBodyLength = 20_000

  /// Reads the secrets out of the environment.
  init(
    _ endpoint: WebhookEndpoint, environment: [String: String], client: CurlClient, clock: ServiceClock
  ) throws(ConfigurationProblem) {
    let name = endpoint.secretEnvironmentVariable
    guard let text = environment[name], !text.isEmpty else {
      throw ConfigurationProblem(name, "is not set; the webhook \(endpoint.name) needs it")
    }
    do throws(WebhookSecrets.Failure) {
      secrets = try WebhookSecrets(text)
    } catch {
      throw ConfigurationProblem(name, error.reason)
    }
    self.endpoint = endpoint
    self.client = client
    self.clock = clock
  }

  func content(of state: CustomerState) throws -> [UInt8] {
    JSONWriter.bytes(of: WebhookEvent.Content(state))
  }

  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    let answers = await withTaskGroup(of: (Int, (DeliveryOutcome, LaneTrouble?)).self) { group in
      for (index, message) in messages.enumerated() {
        group.addTask { (index, await send(message)) }
      }
      return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    let troubles = answers.values.compactMap(\.1)
    return Delivery(
      outcomes: messages.indices.map { answers[$0]?.0 ?? .untried },
      trouble: troubles.first(where: \.isGone) ?? troubles.first)
  }

  private func send(_ message: OutboxMessage) async -> (DeliveryOutcome, LaneTrouble?) {
    do {
      let request = request(message)
      let length = request.body?.count ?? 0
      guard length < Self.maximumBodyLength else {
        return (
          .refused("the event has \(length) bytes, and receivers take 20 kB: shorten the features"), nil
        )
      }
      let answer = try await client.send(request)
      return judge(answer.status, after: answer.headers.retryAfterSeconds)
    } catch CurlError.cancelled, CurlError.shutDown, CurlError.busy {
      return (.untried, nil)
    } catch {
      return (.failed(error.words), .unavailable(error.words))
    }
  }

  private func judge(_ status: Int, after wish: TimeInterval?) -> (DeliveryOutcome, LaneTrouble?) {
    let reason = "HTTP \(status)"
    switch status {
    case 200..<300: return (.delivered, nil)
    // Nothing was lost: it goes when somebody opens the endpoint again.
    case 410: return (.untried, .gone("HTTP 410 Gone"))
    case 429, 502, 503, 504: return (.failed(reason, after: wish), .unavailable(reason, after: wish))
    default: return (.failed(reason, after: wish), nil)
    }
  }

  private func request(_ message: OutboxMessage) -> CurlRequest {
    let body = JSONWriter.bytes(
      of: WebhookEvent(timestamp: message.changedAt, data: WebhookEvent.Content(message.state)))
    // One for each change of each row, which has one content: the same on every retry, another one for another state.
    let id = "msg_\(message.id)_\(message.change)"
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

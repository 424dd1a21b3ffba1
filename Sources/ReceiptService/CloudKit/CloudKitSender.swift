import Curl
import FoundationEssentials
import HTTP
import HTTPTypes
import Subscriptions

/// Writes customers' states to the public database of an app's container.
struct CloudKitSender: OutboxSender {
  let container: CloudKitContainer
  let key: CloudKitKey
  let client: CurlClient
  let clock: ServiceClock

  let batchSize = CloudKitModification.maximumOperations
  let timeout: TimeInterval = 30

  private static let apple = "https://api.apple-cloudkit.com"

  /// Reads the key.
  /// - Parameter subject: what to call the container in a problem.
  init(
    _ container: CloudKitContainer, subject: String, client: CurlClient, clock: ServiceClock
  ) throws(ConfigurationProblem) {
    guard let data = try? Data(contentsOf: URL(filePath: container.keyFile)) else {
      throw ConfigurationProblem(subject, "cannot read \(KeyFile.shown(container.keyFile))")
    }
    guard let key = try? CloudKitKey(id: container.keyID, pem: String(decoding: data, as: UTF8.self)) else {
      throw ConfigurationProblem(
        subject, "\(KeyFile.shown(container.keyFile)) is not a P-256 private key in PEM")
    }
    self.container = container
    self.key = key
    self.client = client
    self.clock = clock
  }

  func content(of state: CustomerState) throws -> [UInt8] {
    try JSONCoding.encode(CloudKitRecord(state, recordType: container.recordType, isComplete: false))
  }

  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    do {
      let records = messages.map {
        CloudKitRecord($0.state, recordType: container.recordType, isComplete: true)
      }
      let answer = try await modify(records)
      switch answer.status {
      case 200: return CloudKitAnswer.delivery(of: answer.body, for: records.map(\.recordName))
      case 400 where messages.count > 1: return await sendSingly(messages, hasTime: hasTime)
      case 400:
        let words = CloudKitAnswer.words(of: answer.body) ?? "HTTP 400"
        return Delivery(outcomes: [.refused(words)])
      default:
        let trouble = CloudKitAnswer.trouble(
          status: answer.status, body: answer.body, after: answer.headers.retryAfterSeconds)
        return .trouble(trouble, for: messages)
      }
    } catch CurlError.cancelled, CurlError.shutDown, CurlError.busy {
      return Delivery(outcomes: messages.map { _ in .untried })
    } catch {
      let reason = (error as? CurlError)?.words ?? "the request cannot be signed"
      return .trouble(.unavailable(reason), for: messages)
    }
  }

  /// One of them is at fault; it shall fail alone.
  private func sendSingly(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    var delivery = Delivery(outcomes: [])
    for message in messages {
      guard delivery.trouble == nil, hasTime() else {
        delivery.outcomes.append(.untried)
        continue
      }
      let single = await send([message], hasTime: hasTime)
      delivery.outcomes += single.outcomes
      delivery.trouble = single.trouble
    }
    return delivery
  }

  private func modify(_ records: [CloudKitRecord]) async throws -> CurlResponse {
    let path = "/database/1/\(container.name)/\(container.environment.rawValue)/public/records/modify"
    let body = try JSONCoding.encode(
      CloudKitModification(operations: records.map { CloudKitModification.Operation(record: $0) }))
    return try await client.send(
      CurlRequest(
        method: .post, url: (container.address ?? Self.apple) + path,
        headers: key.fields(signing: body, path: path, at: clock.now()).traced, body: body,
        timeout: .seconds(timeout), connectTimeout: .seconds(5), maximumResponseLength: 4 << 20))
  }
}

extension Delivery {
  /// All failed for the same reason.
  static func trouble(_ trouble: LaneTrouble, for messages: [OutboxMessage]) -> Delivery {
    Delivery(outcomes: messages.map { _ in .failed(trouble.reason) }, trouble: trouble)
  }
}

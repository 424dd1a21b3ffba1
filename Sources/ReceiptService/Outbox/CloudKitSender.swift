import Configuration
import Curl
import Foundation
import HTTP
import HTTPTypes
import Subscriptions
import Work

/// Writes customers' states to the public database of an app's CloudKit container.
struct CloudKitSender: OutboxSender {
  let container: CloudKitContainer
  let key: CloudKitKey
  let client: CurlClient
  let clock: ServiceClock

  let batchSize = CloudKitModification.maximumOperations
  let timeout: TimeInterval = 30

  private static let apple = "https://api.apple-cloudkit.com"

  /// Reads the key.
  /// - Parameter subject: the container's name in an error.
  init(
    _ container: CloudKitContainer, subject: String, client: CurlClient, clock: ServiceClock
  ) throws(ConfigurationProblem) {
    self.container = container
    key = try container.readKey(subject: subject)
    self.client = client
    self.clock = clock
  }

  func bytes(of content: OutboxContent) throws -> [UInt8] {
    guard case .state(let state) = content else { return [] }
    return try JSONCoding.encode(CloudKitRecord(state, recordType: container.recordType, isComplete: false))
  }

  func send(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    do {
      // A container gets states alone.
      let records = messages.compactMap { message -> CloudKitRecord? in
        guard case .state(let state) = message.content else { return nil }
        return CloudKitRecord(state, recordType: container.recordType, isComplete: true)
      }
      let response = try await modify(records)
      switch response.status {
      case 200:
        return CloudKitResponse.delivery(
          of: response.body, for: records.map(\.recordName),
          deletions: Set(records.filter { $0.fields == nil }.map(\.recordName)))
      case 400 where messages.count > 1: return await sendSingly(messages, hasTime: hasTime)
      case 400:
        return Delivery(outcomes: [.refused(CloudKitResponse.message(of: response.body) ?? "HTTP 400")])
      default:
        let problem = CloudKitResponse.problem(
          status: response.status, body: response.body, retryAfter: response.headers.retryAfterSeconds)
        return .failed(problem, for: messages)
      }
    } catch CurlError.cancelled, CurlError.shutDown, CurlError.busy {
      return Delivery(outcomes: messages.map { _ in .untried })
    } catch {
      let reason = (error as? CurlError)?.message ?? "the request cannot be signed"
      return .failed(.unavailable(reason), for: messages)
    }
  }

  /// Sends each message in a request of its own, so that an invalid one does not fail the others.
  private func sendSingly(_ messages: [OutboxMessage], hasTime: @Sendable () -> Bool) async -> Delivery {
    var delivery = Delivery(outcomes: [])
    for message in messages {
      guard delivery.problem == nil, hasTime() else {
        delivery.outcomes.append(.untried)
        continue
      }
      let single = await send([message], hasTime: hasTime)
      delivery.outcomes += single.outcomes
      delivery.problem = single.problem
    }
    return delivery
  }

  private func modify(_ records: [CloudKitRecord]) async throws -> CurlResponse {
    let path = "/database/1/\(container.name)/\(container.environment.rawValue)/public/records/modify"
    let body = try JSONCoding.encode(
      CloudKitModification(operations: records.map(CloudKitModification.Operation.init)))
    return try await client.send(
      CurlRequest(
        method: .post, url: (container.address ?? Self.apple) + path,
        headers: key.fields(signing: body, path: path, at: clock.now()).traced, body: body,
        timeout: .seconds(timeout), connectTimeout: .seconds(5), maximumResponseLength: 4 << 20))
  }
}

extension Delivery {
  /// All messages failed for the same reason.
  static func failed(_ problem: DestinationProblem, for messages: [OutboxMessage]) -> Delivery {
    Delivery(outcomes: messages.map { _ in .failed(problem.reason) }, problem: problem)
  }
}

extension CloudKitContainer {
  /// Reads the key that signs requests.
  /// - Parameter subject: what the error message names.
  func readKey(subject: String) throws(ConfigurationProblem) -> CloudKitKey {
    guard let data = try? Data(contentsOf: URL(filePath: keyFile)) else {
      throw ConfigurationProblem(subject, "cannot read \(KeyFile.shown(keyFile))")
    }
    guard let key = try? CloudKitKey(id: keyID, pem: String(decoding: data, as: UTF8.self)) else {
      throw ConfigurationProblem(subject, "\(KeyFile.shown(keyFile)) is not a P-256 private key in PEM")
    }
    return key
  }
}

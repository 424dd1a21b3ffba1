import Configuration
import Crypto
import Curl
import Foundation
import HTTP
import HTTPTypes
import JSON
import Subscriptions
import Text
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
  package static func failed(_ problem: DestinationProblem, for messages: [OutboxMessage]) -> Delivery {
    Delivery(outcomes: messages.map { _ in .failed(problem.reason) }, problem: problem)
  }
}

extension CloudKitContainer {
  /// Reads the key that signs requests.
  /// - Parameter subject: what the error message names.
  package func readKey(subject: String) throws(ConfigurationProblem) -> CloudKitKey {
    guard let data = try? Data(contentsOf: URL(filePath: keyFile)) else {
      throw ConfigurationProblem(subject, "cannot read \(KeyFile.shown(keyFile))")
    }
    guard let key = try? CloudKitKey(id: keyID, pem: String(decoding: data, as: UTF8.self)) else {
      throw ConfigurationProblem(subject, "\(KeyFile.shown(keyFile)) is not a P-256 private key in PEM")
    }
    return key
  }
}

/// A server-to-server key that signs requests to CloudKit.
package struct CloudKitKey: Sendable {
  package let id: String
  private let key: P256.Signing.PrivateKey

  /// - Parameter pem: as `openssl ecparam -name prime256v1 -genkey -noout` writes it (SEC 1), or PKCS #8.
  init(id: String, pem: String) throws {
    self.id = id
    key = try P256.Signing.PrivateKey(pemRepresentation: pem)
  }

  /// The fields that sign a request: ECDSA with P-256 and SHA-256, in DER, over
  /// `date:base64(SHA-256(body)):path` (CloudKit Web Services Reference, "Accessing CloudKit Using a
  /// Server-to-Server Key").
  ///
  /// - Parameters:
  ///   - path: the path from `/database` on.
  ///   - instant: now. CloudKit accepts whole seconds only.
  package func fields(signing body: [UInt8], path: String, at instant: Date) throws -> HTTPFields {
    let date = RFC3339.string(from: instant)
    let digest = Data(SHA256.hash(data: body)).base64EncodedString()
    let signature = try key.signature(for: Data("\(date):\(digest):\(path)".utf8))
    var fields: HTTPFields = [.contentType: "application/json"]
    fields[Self.keyField] = id
    fields[Self.dateField] = date
    fields[Self.signatureField] = signature.derRepresentation.base64EncodedString()
    return fields
  }

  // Never `accept`: these are tokens as RFC 9110 defines them.
  private static let keyField = HTTPField.Name("X-Apple-CloudKit-Request-KeyID") ?? .accept
  private static let dateField = HTTPField.Name("X-Apple-CloudKit-Request-ISO8601Date") ?? .accept
  private static let signatureField = HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1") ?? .accept
}

/// A customer's state as a record of the public database.
struct CloudKitRecord: Encodable {
  var recordName: String
  var recordType: String
  /// `nil` deletes the record.
  var fields: Fields?

  /// All fields, because `forceUpdate` changes only the fields of the request.
  struct Fields: Encodable {
    var tier: Field<String>
    var status: Field<String>
    /// CloudKit has no booleans: 1 or 0.
    var isAccessGranted: Field<Int64>
    /// The features of the children's devices as JSON, under the app's own names.
    var features: Field<String>
    var validUntil: Field<Int64>
    /// When receiptd read the state; `nil` in the content that the digest covers.
    var updatedAt: Field<Int64>?
  }

  /// A value with its type; without it CloudKit reads a time as a number. `null` clears the field.
  struct Field<Value: Encodable & Sendable>: Encodable {
    @Nullable var value: Value?
    var type: String
  }

  /// - Parameter isComplete: whether to include `updatedAt`.
  init(_ state: CustomerState, recordType: String, isComplete: Bool) {
    recordName = Self.name(of: state.customer, in: state.app)
    self.recordType = recordType
    if state.isErased { return }
    let entitlements = state.entitlements
    let features = String(decoding: JSONWriter.bytes(of: entitlements.features), as: UTF8.self)
    fields = Fields(
      tier: Field(value: entitlements.tier, type: "STRING"),
      status: Field(value: entitlements.status.rawValue, type: "STRING"),
      isAccessGranted: Field(value: entitlements.isAccessGranted ? 1 : 0, type: "INT64"),
      features: Field(value: features, type: "STRING"),
      validUntil: Field(value: entitlements.validUntil?.cloudKitTimestamp, type: "TIMESTAMP"),
      updatedAt: isComplete ? Field(value: state.instant.cloudKitTimestamp, type: "TIMESTAMP") : nil)
  }

  /// `c-` and the SHA-256 of `<bundle id>:<customer's id>` in lower-case hex.
  ///
  /// A record name has at most 255 ASCII characters and does not begin with an underscore; a device's id may have any.
  /// Every client of the app can read the public database. A child's device that knows its parent's id finds the record
  /// by the digest, and no client learns an id from a record: the id authenticates a device.
  static func name(of customer: Customer, in app: App) -> String {
    let digest = SHA256.hash(data: Data("\(app.bundleID):\(customer.id)".utf8))
    var name = "c-"
    for byte in digest {
      name.append(String(byte >> 4, radix: 16))
      name.append(String(byte & 15, radix: 16))
    }
    return name
  }
}

extension Date {
  /// CloudKit's TIMESTAMP: milliseconds since 1970.
  fileprivate var cloudKitTimestamp: Int64 { Int64((timeIntervalSince1970 * 1000).rounded()) }
}

/// The body of `records/modify`.
struct CloudKitModification: Encodable {
  struct Operation: Encodable {
    var operationType: String
    var record: CloudKitRecord

    init(_ record: CloudKitRecord) {
      operationType = record.fields == nil ? "forceDelete" : "forceUpdate"
      self.record = record
    }
  }

  var operations: [Operation]

  /// The most operations of one request ("Data Size Limits" of the CloudKit Web Services Reference).
  static let maximumOperations = 200
}

/// Maps a response to `records/modify` to an outcome for each record.
struct CloudKitResponse {
  /// An error as CloudKit writes it: for one record in a response of status 200, or for the whole request.
  fileprivate struct Fault: Decodable {
    var recordName: String?
    var serverErrorCode: String?
    var reason: String?
    /// In seconds. Without it the request must not be retried.
    var retryAfter: Double?
  }

  private struct Body: Decodable {
    var records: [Fault]?
  }

  /// Codes of temporary errors, for responses without `retryAfter`.
  private static let transient: Set = [
    "CONFLICT", "INTERNAL_ERROR", "QUOTA_EXCEEDED", "THROTTLED", "TRY_AGAIN_LATER", "ZONE_BUSY",
  ]
  /// Codes that refuse the key, not a record.
  private static let authentication: Set = ["AUTHENTICATION_FAILED", "AUTHENTICATION_REQUIRED"]

  /// The outcomes of a response of status 200 for the records with these names.
  /// - Parameter deletions: the names of records to delete; one that does not exist is deleted.
  static func delivery(of body: [UInt8], for names: [String], deletions: Set<String> = []) -> Delivery {
    guard let response = try? JSONDecoder().decode(Body.self, from: Data(body)),
      let records = response.records
    else {
      let outcome = DeliveryOutcome.failed("CloudKit's response cannot be read")
      return Delivery(outcomes: names.map { _ in outcome })
    }
    let faults = Dictionary(
      records.compactMap { record in record.recordName.map { ($0, record) } },
      uniquingKeysWith: { first, _ in first })
    var problem: DestinationProblem?
    let outcomes = names.map { name -> DeliveryOutcome in
      guard let record = faults[name] else {
        return .failed("CloudKit's response does not contain the record")
      }
      guard let code = record.serverErrorCode else { return .delivered }
      if code == "NOT_FOUND", deletions.contains(name) { return .delivered }
      // These codes concern the whole container. The longest pause counts.
      if authentication.contains(code) {
        problem = .unavailable(record.message)
        return .failed(record.message)
      }
      if code == "THROTTLED" {
        if case .unavailable(_, let before) = problem, (before ?? 0) > (record.retryAfter ?? 0) {
          return .failed(record.message, after: record.retryAfter)
        }
        problem = .unavailable(record.message, after: record.retryAfter)
      }
      guard record.retryAfter != nil || transient.contains(code) else { return .refused(record.message) }
      return .failed(record.message, after: record.retryAfter)
    }
    return Delivery(outcomes: outcomes, problem: problem)
  }

  /// The problem that a response of another status reports for the container.
  static func problem(status: Int, body: [UInt8], retryAfter: TimeInterval?) -> DestinationProblem {
    let fault = try? JSONDecoder().decode(Fault.self, from: Data(body))
    return .unavailable(
      "HTTP \(status)" + (fault?.serverErrorCode == nil ? "" : ": \(fault?.message ?? "")"),
      after: fault?.retryAfter ?? retryAfter)
  }

  /// CloudKit's error message in the body of a refused request.
  static func message(of body: [UInt8]) -> String? {
    (try? JSONDecoder().decode(Fault.self, from: Data(body)))?.message
  }
}

extension CloudKitResponse.Fault {
  fileprivate var message: String {
    // The text comes from outside, so its length is limited.
    String([serverErrorCode, reason].compactMap(\.self).joined(separator: ": ").prefix(300))
  }
}

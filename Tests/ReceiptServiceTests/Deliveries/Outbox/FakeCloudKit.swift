import Crypto
import Foundation
import HTTP
import HTTPTypes
import Logging
import Synchronization
import Testing

@testable import Deliveries
@testable import ReceiptService

/// A fake of CloudKit Web Services: it accepts `records/modify`, records the requests, and fails as the test sets.
/// OpenSSL
/// verifies the signatures afterwards.
final class FakeCloudKit: Sendable {
  struct Asked: Sendable {
    var path: String
    var body: [UInt8]
    var keyID: String
    var date: String
    var signature: String
  }

  /// One written record.
  struct Write: Sendable {
    var name: String
    var type: String
    var tier: String?
    var status: String
    var isAccessGranted: Bool
    var features: String
    var validUntil: Int?
    var updatedAt: Int

    /// The fields that tests compare.
    var content: String { "\(tier ?? "-") \(status) \(isAccessGranted) \(features) \(validUntil ?? 0)" }
  }

  struct State: Sendable {
    var asked: [Asked] = []
    var writes: [Write] = []
    /// The names of deleted records.
    var deleted: [String] = []
    /// Replaces the response; the names are those of the records.
    var fault: (@Sendable ([String]) -> Response?)?
    /// Refuses one record with `serverErrorCode` and `retryAfter`.
    var recordFault: (@Sendable (String) -> (String, Double?)?)?
    /// An action during the next request.
    var meanwhile: (@Sendable () async throws -> Void)?
  }

  let address: SocketAddress
  let folder: URL
  private let server: HTTPServer
  private let held: Held

  private final class Held: Sendable { let state = Mutex(State()) }

  init() async throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "cloudkit-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    #expect(
      try await OpenSSL.run(
        ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key.pem"], in: folder
      )
      .isSuccess)
    #expect(
      try await OpenSSL.run(["ec", "-in", "key.pem", "-pubout", "-out", "public.pem"], in: folder).isSuccess)
    let held = Held()
    self.held = held
    var router = Router()
    router.on(
      .post, "/database/1/{container}/{environment}/public/records/modify", maximumBodyLength: 8 << 20
    ) { request in try await Self.answer(request, held) }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "cloudkit") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  var keyFile: String { folder.appending(path: "key.pem").path }

  /// The member `cloudkit` of the app's configuration.
  var configuration: String {
    """
    "writeTo": ["cloudkit"], "cloudkit": { "container": "iCloud.com.example.family", "environment": "development",
      "keyID": "0123abcd", "key": "\(keyFile)", "recordType": "Status", "url": "http://\(address)" },
    """
  }

  var writes: [Write] { held.state.withLock { $0.writes } }

  var deleted: [String] { held.state.withLock { $0.deleted } }

  func writes(of name: String) -> [Write] { writes.filter { $0.name == name } }

  var asked: [Asked] { held.state.withLock { $0.asked } }

  func change(_ change: (inout State) -> Void) { held.state.withLock { change(&$0) } }

  func stop() async {
    await server.shutdown(within: .seconds(1))
    try? FileManager.default.removeItem(at: folder)
  }

  private static func answer(_ request: Request, _ held: Held) async throws -> Response {
    let fields = request.headers
    let asked = Asked(
      path: request.path, body: request.body,
      keyID: fields[try name("X-Apple-CloudKit-Request-KeyID")] ?? "",
      date: fields[try name("X-Apple-CloudKit-Request-ISO8601Date")] ?? "",
      signature: fields[try name("X-Apple-CloudKit-Request-SignatureV1")] ?? "")
    let meanwhile = held.state.withLock { state in
      state.asked.append(asked)
      defer { state.meanwhile = nil }
      return state.meanwhile
    }
    try await meanwhile?()
    let (writes, deletions) = try operations(in: request.body)
    return held.state.withLock { state in
      if let answer = state.fault?(writes.map(\.name)) { return answer }
      state.deleted += deletions
      var records: [[String: Any]] = deletions.map { ["recordName": $0, "deleted": true] }
      for write in writes {
        if let (code, retryAfter) = state.recordFault?(write.name) {
          var record: [String: Any] = ["recordName": write.name, "serverErrorCode": code, "reason": "no"]
          record["retryAfter"] = retryAfter
          records.append(record)
        } else {
          state.writes.append(write)
          records.append(["recordName": write.name, "recordType": write.type, "fields": [:]])
        }
      }
      let body = (try? JSONSerialization.data(withJSONObject: ["records": records])) ?? Data()
      return Response(headers: [.contentType: "application/json"], body: Array(body))
    }
  }

  private static func name(_ text: String) throws -> HTTPField.Name { try #require(HTTPField.Name(text)) }

  private static func operations(in body: [UInt8]) throws -> (writes: [Write], deletions: [String]) {
    let json = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
    let operations = try #require(json?["operations"] as? [[String: Any]])
    let deletions = try operations.filter { $0["operationType"] as? String == "forceDelete" }.map {
      operation in
      let record = try #require(operation["record"] as? [String: Any])
      #expect(record["fields"] == nil)
      return try #require(record["recordName"] as? String)
    }
    let writes = try operations.filter { $0["operationType"] as? String != "forceDelete" }.map { operation in
      #expect(operation["operationType"] as? String == "forceUpdate")
      let record = try #require(operation["record"] as? [String: Any])
      let fields = try #require(record["fields"] as? [String: [String: Any]])
      return Write(
        name: try #require(record["recordName"] as? String),
        type: try #require(record["recordType"] as? String),
        tier: fields["tier"]?["value"] as? String,
        status: try #require(fields["status"]?["value"] as? String),
        isAccessGranted: try #require(fields["isAccessGranted"]?["value"] as? Int) == 1,
        features: try #require(fields["features"]?["value"] as? String),
        validUntil: fields["validUntil"]?["value"] as? Int,
        updatedAt: try #require(fields["updatedAt"]?["value"] as? Int))
    }
    return (writes, deletions)
  }

  /// Whether OpenSSL verifies a request's signature.
  func isSigned(_ asked: Asked) async throws -> Bool {
    let digest = try await OpenSSL.sha256(asked.body, in: folder)
    try Data("\(asked.date):\(digest):\(asked.path)".utf8).write(to: folder.appending(path: "message"))
    try #require(Data(base64Encoded: asked.signature)).write(to: folder.appending(path: "signature"))
    return try await OpenSSL.run(
      ["dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "message"], in: folder
    ).isSuccess
  }
}

extension FakeCloudKit {
  /// The name of a device's record, as a child's device computes it.
  static func recordName(_ device: String) -> String {
    "c-"
      + SHA256.hash(data: Data("com.example.family:\(device)".utf8))
      .map { String(format: "%02x", $0) }.joined()
  }
}

extension Response {
  /// CloudKit's response to a refused request.
  static func cloudKit(_ status: Int, _ code: String, retryAfter: Int? = nil) -> Response {
    let after = retryAfter.map { ", \"retryAfter\": \($0)" } ?? ""
    return Response(
      status: .init(code: status), headers: [.contentType: "application/json"],
      body: Array(#"{"uuid": "x", "serverErrorCode": "\#(code)", "reason": "no"\#(after)}"#.utf8))
  }
}

/// Runs a test with a receiptd that writes the customers of its device app to a fake CloudKit.
func withCloudKit(_ body: (Harness, FakeCloudKit) async throws -> Void) async throws {
  let cloud = try await FakeCloudKit()
  let configuration = TestApps.json.replacing(
    #""customer": "device","#, with: #""customer": "device", "# + cloud.configuration)
  do {
    try await withHarness(configuration: configuration) { harness in
      try harness.sellFamilySubscriptions()
      try await harness.service.deliveries.outbox.register()
      try await body(harness, cloud)
    }
  } catch {
    await cloud.stop()
    throw error
  }
  await cloud.stop()
}

import Foundation
import HTTP
import HTTPTypes
import Logging
import Synchronization
import Testing

@testable import Deliveries
@testable import ReceiptService

/// A server that receives webhooks, as an integrator would write it.
final class WebhookReceiver: Sendable {
  struct Event: Sendable {
    var id: String
    var timestamp: String
    var signature: String
    var body: [UInt8]

    /// The value at a path such as `data.entitlements.tier`.
    func value(_ path: String) -> Any? { Answer(status: 200, headers: [:], body: body)[path] }
  }

  private struct State: Sendable {
    var events: [Event] = []
    var answers: [Response] = []
    var meanwhile: (@Sendable () async throws -> Void)?
  }

  private final class Held: Sendable { let state = Mutex(State()) }

  static let secret = "whsec_" + Data((0..<32).map { UInt8($0) }).base64EncodedString()
  static let oldSecret = "whsec_" + Data((0..<24).map { UInt8($0 + 100) }).base64EncodedString()

  let address: SocketAddress
  let folder: URL
  private let server: HTTPServer
  private let held: Held

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "webhook-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let held = Held()
    self.held = held
    var router = Router()
    router.on(.post, "/hook") { request in
      func text(_ name: String) throws -> String {
        request.headers[try #require(HTTPField.Name(name))] ?? ""
      }
      let event = Event(
        id: try text("webhook-id"), timestamp: try text("webhook-timestamp"),
        signature: try text("webhook-signature"), body: request.body)
      let meanwhile = held.state.withLock { state in
        state.events.append(event)
        defer { state.meanwhile = nil }
        return state.meanwhile
      }
      try await meanwhile?()
      return held.state.withLock { state in
        state.answers.isEmpty ? .empty(.noContent) : state.answers.removeFirst()
      }
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "webhook") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  var url: String { "http://\(address)/hook" }

  var events: [Event] { held.state.withLock { $0.events } }

  /// Sets the responses of the next requests; later ones get 204.
  func answer(_ statuses: Int...) {
    held.state.withLock { $0.answers = statuses.map { .empty(.init(code: $0)) } }
  }

  /// Runs an action before the response to the next request.
  func meanwhile(_ action: @escaping @Sendable () async throws -> Void) {
    held.state.withLock { $0.meanwhile = action }
  }

  func answer(_ response: Response) { held.state.withLock { $0.answers = [response] } }

  func stop() async {
    await server.shutdown(within: .seconds(1))
    try? FileManager.default.removeItem(at: folder)
  }

  /// The signature of an event by OpenSSL.
  func signature(of event: Event, secret: String) async throws -> String {
    let key = try #require(Data(base64Encoded: String(secret.dropFirst("whsec_".count))))
    let signed = Array("\(event.id).\(event.timestamp).".utf8) + event.body
    return "v1," + (try await OpenSSL.hmac(signed, key: key, in: folder))
  }

  /// The test apps; the app whose customers are users has webhooks.
  static func configuration(_ webhooks: [String]) -> String {
    TestApps.json.replacing(
      #""name": "Climbing","#,
      with: #""name": "Climbing", "webhooks": [\#(webhooks.joined(separator: ", "))],"#)
  }

  /// - Parameter events: the types of events; `nil` for all.
  static func webhook(
    _ url: String, isPrivate: Bool = true, events: [String]? = ["customer.updated"]
  ) -> String {
    let list = events.map { #", "events": ["\#($0.joined(separator: #"", ""#))"]"# } ?? ""
    return
      #"{ "url": "\#(url)", "secretEnv": "TEST_WEBHOOK_SECRET", "allowPrivateAddresses": \#(isPrivate)\#(list) }"#
  }
}

/// Runs a test with a receiptd that sends webhooks to a receiver.
func withWebhook(
  secret: String = WebhookReceiver.secret, _ body: (Harness, WebhookReceiver) async throws -> Void
) async throws {
  try await withReceiver(
    secret: secret, configuration: { WebhookReceiver.configuration([WebhookReceiver.webhook($0.url)]) }, body)
}

/// Runs a test with a receiver, and a receiptd whose configuration names it.
func withReceiver(
  secret: String = WebhookReceiver.secret, configuration: (WebhookReceiver) -> String,
  _ body: (Harness, WebhookReceiver) async throws -> Void
) async throws {
  let receiver = try WebhookReceiver()
  do {
    try await withHarness(
      configuration: configuration(receiver), environment: ["TEST_WEBHOOK_SECRET": secret]
    ) { harness in
      try await harness.service.deliveries.outbox.register()
      try await body(harness, receiver)
    }
  } catch {
    await receiver.stop()
    throw error
  }
  await receiver.stop()
}

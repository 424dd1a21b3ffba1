import HTTP
import HTTPTypes
import Logging
import Synchronization
import Testing

/// A server that receives webhooks.
final class Receiver: Sendable {
  private final class Held: Sendable { let fields = Mutex<[HTTPFields]>([]) }

  let url: String
  private let server: HTTPServer
  private let held = Held()

  init() throws {
    var router = Router()
    router.onImmediate(.post, "/hook") { [held] request in
      held.fields.withLock { $0.append(request.headers) }
      return .empty(.noContent)
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "receiver") { _ in SwiftLogNoOpLogHandler() })
    url = "http://\(try server.start())/hook"
  }

  /// The value of `webhook-signature` in each request.
  var signatures: [String] { values("webhook-signature").compactMap(\.self) }

  /// The value of `traceparent` in each request.
  var traces: [String?] { values("traceparent") }

  private func values(_ name: String) -> [String?] {
    guard let name = HTTPField.Name(name) else { return [] }
    return held.fields.withLock { $0.map { $0[name] } }
  }

  /// Waits for the first request.
  func waitForEvent() async throws {
    let deadline = ContinuousClock.now + .seconds(120)
    while held.fields.withLock({ $0.isEmpty }), ContinuousClock.now < deadline {
      try await Task.sleep(for: .milliseconds(20))
    }
    try #require(held.fields.withLock { !$0.isEmpty }, "nothing was posted")
  }

  func stop() async { await server.shutdown(within: .seconds(1)) }
}

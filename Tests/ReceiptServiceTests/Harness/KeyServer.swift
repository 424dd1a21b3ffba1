import Crypto
import Foundation
import HTTP
import HTTPTypes
import JWTKit
import Logging
import Synchronization
import Testing

/// An authentication server that publishes its keys, on a real socket.
final class KeyServer: Sendable {
  let address: SocketAddress
  let key: ES256PrivateKey
  let keys: JWTKeyCollection
  let jwks: String
  private let server: HTTPServer
  private let state: State

  /// A reply of the server.
  enum Reply: Sendable {
    case keySet
    case status(Int)
    /// With status 200.
    case text(String)
    /// No response until the client's timeout.
    case held
  }

  private final class State: Sendable {
    let requests = Mutex(0)
    let reply = Mutex(Reply.keySet)
    let held = Mutex(0)
    /// Yields for every held request.
    let arrivals = AsyncStream.makeStream(of: Void.self)
  }

  init() async throws {
    let key = ES256PrivateKey()
    let state = State()
    self.key = key
    self.state = state
    keys = await JWTKeyCollection().add(ecdsa: key, kid: "key-1")
    let parameters = try #require(key.parameters)
    // A key of an unknown type must not affect the others.
    let jwks = """
      {"keys": [
        {"kty": "unheard-of", "kid": "key-0", "alg": "XX999"},
        {"kty": "EC", "crv": "P-256", "kid": "key-1", "alg": "ES256", "use": "sig",
         "x": "\(parameters.x)", "y": "\(parameters.y)"}
      ]}
      """
    self.jwks = jwks
    var router = Router()
    router.on(.get, "/jwks.json") { _ in
      state.requests.withLock { $0 += 1 }
      switch state.reply.withLock({ $0 }) {
      case .keySet: return .text(.ok, jwks, contentType: "application/json")
      case .status(let code): return .empty(HTTPResponse.Status(code: code))
      case .text(let text): return .text(.ok, text, contentType: "application/json")
      case .held:
        state.held.withLock { $0 += 1 }
        defer { state.held.withLock { $0 -= 1 } }
        state.arrivals.continuation.yield()
        let never = AsyncStream.makeStream(of: Void.self)
        for await _ in never.stream {}
        never.continuation.finish()
        throw CancellationError()
      }
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "keys") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  /// How often the keys were fetched.
  var requests: Int { state.requests.withLock { $0 } }

  /// Sets the reply for the next requests.
  func reply(with reply: Reply) { state.reply.withLock { $0 = reply } }

  /// Whether a request is held.
  var isHolding: Bool { state.held.withLock { $0 > 0 } }

  /// Returns when a request is held.
  func holds() async {
    var arrivals = state.arrivals.stream.makeAsyncIterator()
    _ = await arrivals.next()
  }

  func stop() async { await server.shutdown(within: .seconds(1)) }
}

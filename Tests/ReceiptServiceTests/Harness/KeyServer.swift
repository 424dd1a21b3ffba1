import Crypto
import Foundation
import HTTP
import HTTPTypes
import JWTKit
import Logging
import Synchronization
import Testing

/// An authentication server's public keys, on a real socket.
final class KeyServer: Sendable {
  let address: SocketAddress
  let key: ES256PrivateKey
  let keys: JWTKeyCollection
  let jwks: String
  private let server: HTTPServer
  private let counter: Counter

  private final class Counter: Sendable {
    let value = Mutex(0)
  }

  init() async throws {
    let key = ES256PrivateKey()
    let counter = Counter()
    self.key = key
    self.counter = counter
    keys = await JWTKeyCollection().add(ecdsa: key, kid: "key-1")
    let parameters = try #require(key.parameters)
    // A key of a kind that nobody here knows must not spoil the others.
    let jwks = """
      {"keys": [
        {"kty": "unheard-of", "kid": "key-0", "alg": "XX999"},
        {"kty": "EC", "crv": "P-256", "kid": "key-1", "alg": "ES256", "use": "sig",
         "x": "\(parameters.x)", "y": "\(parameters.y)"}
      ]}
      """
    self.jwks = jwks
    var router = Router()
    router.onImmediate(.get, "/jwks.json") { _ in
      counter.value.withLock { $0 += 1 }
      return .text(.ok, jwks, contentType: "application/json")
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "keys") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  /// How often the keys were fetched.
  var requests: Int { counter.value.withLock { $0 } }

  func stop() async { await server.shutdown(within: .seconds(1)) }
}

import AppStore
import Foundation
import HTTP
import Logging
import Synchronization

/// Serves a ``SimulatedAppStore`` over HTTP: Apple's App Store Server API at `/inApps/…` (production) and
/// `/sandbox/inApps/…`, and the control API at `/control/…`.
///
/// ```swift
/// let server = try await SimulatorServer(store: store)
/// let address = try server.start()  // APP_STORE_URL=http://127.0.0.1:<port>
/// ```
public final class SimulatorServer: Sendable {
  private let store: SimulatedAppStore
  private let server: HTTPServer
  private let delivering = Mutex<Task<Void, Never>?>(nil)

  /// Makes a server that does not listen yet.
  ///
  /// - Parameters:
  ///   - port: 0 for a free one.
  ///   - environment: for purchases of the control API that name none.
  public init(
    store: SimulatedAppStore, host: String = "127.0.0.1", port: UInt16 = 0,
    environment: Environment = .production, logger: Logger = Logger(label: "appstore-simulator")
  ) async throws {
    let tokens = try await ConnectTokenVerifier(store.identity.connectKey)
    var router = Router()
    ControlRoutes(store: store, environment: environment).add(to: &router)
    for (environment, prefix) in [(Environment.production, ""), (.sandbox, "/sandbox")] {
      ServerAPIRoutes(store: store, tokens: tokens, environment: environment, prefix: prefix)
        .add(to: &router)
    }
    self.store = store
    var configuration = HTTPServerConfiguration(host: host, port: port)
    // A slow response is one of the faults.
    configuration.timeouts.handler = .seconds(ControlRoutes.longestDelay + 20)
    server = HTTPServer(configuration: configuration, router: router, logger: logger)
  }

  /// Listens, sends notifications as they become due, and returns the address with the actual port.
  public func start() throws -> SocketAddress {
    let address = try server.start()
    let task = Task { [store] in await store.keepDelivering() }
    delivering.withLock { $0 = task }
    return address
  }

  /// Finishes the requests under way and stops.
  public func shutdown() async {
    delivering.withLock { $0 }?.cancel()
    await server.shutdown(within: .seconds(2))
  }
}

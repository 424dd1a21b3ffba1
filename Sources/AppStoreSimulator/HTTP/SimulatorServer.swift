import AppStore
import FoundationEssentials
import HTTP
import Logging

/// Serves a ``SimulatedAppStore`` over HTTP: Apple's App Store Server API at `/inApps/…` (production) and
/// `/sandbox/inApps/…`, and the control API at `/control/…`.
///
/// ```swift
/// let server = try await SimulatorServer(store: store)
/// let address = try server.start()  // APP_STORE_URL=http://127.0.0.1:<port>
/// ```
public final class SimulatorServer: Sendable {
  private let server: HTTPServer

  /// A server that does not listen yet.
  ///
  /// - Parameters:
  ///   - port: 0 for one that the system chooses.
  ///   - environment: where purchases of the control API take place that name none.
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
    server = HTTPServer(
      configuration: HTTPServerConfiguration(host: host, port: port), router: router, logger: logger)
  }

  /// Listens, and returns the address with the port that is in use.
  public func start() throws -> SocketAddress { try server.start() }

  /// Finishes what is under way and stops.
  public func shutdown() async { await server.shutdown(within: .seconds(2)) }
}

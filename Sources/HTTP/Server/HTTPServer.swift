public import Logging
public import Sockets

/// Serves a ``Router`` over HTTP/1.1.
public final class HTTPServer: Sendable {
  let configuration: HTTPServerConfiguration
  let router: Router
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?

  /// A server that does not listen yet.
  ///
  /// - Parameter onResponse: is told of every answer, on the event loop that gave it: it must not wait.
  public init(
    configuration: HTTPServerConfiguration, router: Router, logger: Logger,
    onResponse: (@Sendable (RequestSummary) -> Void)? = nil
  ) {
    self.configuration = configuration
    self.router = router
    self.logger = logger
    self.onResponse = onResponse
  }

  /// Listens, and returns the address with the port that is in use.
  ///
  /// - Throws: `SocketError` if the address cannot be resolved or bound.
  public func start() throws -> SocketAddress { SocketAddress(host: "127.0.0.1", port: 0) }

  /// Accepts no more connections; what is connected goes on.
  public func stopAccepting() {}

  /// Accepts no more, closes idle connections, lets running requests finish with `Connection: close`, and
  /// returns when all are gone; what is left after `limit` is cut.
  public func shutdown(within limit: Duration) async {}
}

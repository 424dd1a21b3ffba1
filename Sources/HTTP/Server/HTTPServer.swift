public import Logging
import Platform
public import Sockets
import Synchronization

/// Serves a ``Router`` over HTTP/1.1.
///
/// A handler runs on its connection's event loop, so that a request needs no change of threads. Several servers can
/// share the loops.
public final class HTTPServer: Sendable {
  private let configuration: HTTPServerConfiguration
  private let core: ServerCore
  private let loops: EventLoopGroup
  private let serverLoops: [LoopBound<ServerLoop>]
  private let listener = Mutex<Listener?>(nil)

  /// A server that does not listen yet.
  ///
  /// - Parameter onResponse: called for every response on its event loop; it must not block.
  public init(
    configuration: HTTPServerConfiguration, router: Router, logger: Logger,
    onResponse: (@Sendable (RequestSummary) -> Void)? = nil
  ) {
    self.configuration = configuration
    let loops = configuration.eventLoops.map { EventLoopGroup(count: $0) } ?? .shared
    let core = ServerCore(
      limits: configuration.limits,
      bufferedBytes: configuration.limits.bufferedBytes(ofLoops: loops.loops.count),
      timeouts: ConnectionState.Timeouts(configuration.timeouts),
      trustedProxies: configuration.trustedProxies, logger: logger, onResponse: onResponse)
    self.core = core
    self.loops = loops
    serverLoops = loops.loops.map { LoopBound(ServerLoop(core: core, router: router), to: $0) }
  }

  /// Starts to listen.
  ///
  /// - Returns: the address with the port in use.
  /// - Throws: `SocketError` if the address cannot be resolved or bound.
  /// - Precondition: the server was not started before.
  public func start() throws -> SocketAddress {
    let listener = try Listener(listenerConfiguration, loops: loops, events: events())
    self.listener.withLock { current in
      precondition(current == nil, "A server is started once.")
      current = listener
    }
    return listener.address
  }

  /// The configuration of the listener.
  var listenerConfiguration: Listener.Configuration {
    var settings = Listener.Configuration(host: configuration.host, port: configuration.port)
    settings.backlog = configuration.backlog
    settings.maximumConnections = configuration.limits.connections
    settings.maximumConnectionsPerAddress = configuration.limits.connectionsPerAddress
    settings.isExemptFromAddressLimit = { [proxies = configuration.trustedProxies] peer in
      let address = IPAddress(peer)
      return address.isLoopback || proxies.contain(address)
    }
    return settings
  }

  private func events() -> Listener.Events {
    let core = core
    var events = Listener.Events { [serverLoops] connection in
      serverLoops[connection.loop.index].value.add(connection)
    }
    events.onAcceptError = {
      core.logger.error("cannot accept connections; retrying", metadata: ["error": "\($0)"])
    }
    let refused = RefusedConnections()
    events.onRefusal = { address in
      if let count = refused.add(at: .now) {
        core.logger.notice(
          "connections were refused: too many are open",
          metadata: ["connections": "\(count)", "lastAddress": "\(address)"])
      }
      return Self.refusal()
    }
    return events
  }

  /// The response to a connection beyond the limits.
  private static func refusal() -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    let requestID = RequestID.generate(using: &generator)
    var bytes: [UInt8] = []
    // The fields are constants, so this does not throw.
    try? ResponseEncoder.encode(
      Response(.overloaded("There are too many connections."), requestID: requestID),
      options: ConnectionState.ResponseOptions(closes: true), cacheControl: "no-store", requestID: requestID,
      dateField: DateField.current.line, to: &bytes)
    return bytes
  }

  /// The number of open connections.
  public var connectionCount: Int { listener.withLock { $0?.connectionCount ?? 0 } }

  /// Replaces the router, and returns when all connections use the new one. A request whose head has arrived before is
  /// answered by the old one: no request is refused or interrupted.
  public func replaceRouter(_ router: Router) async {
    for (loop, server) in zip(loops.loops, serverLoops) {
      await withCheckedContinuation { replaced in
        loop.execute {
          server.value.router = router
          replaced.resume()
        }
      }
    }
  }

  /// Returns when each event loop has run an item of its queue, which shows that no loop is blocked.
  public func waitUntilResponsive() async {
    for loop in loops.loops {
      await withCheckedContinuation { responded in loop.execute { responded.resume() } }
    }
  }

  /// The buffered bytes of each event loop.
  func bufferedBytes() async -> [Int] {
    var buffered: [Int] = []
    for (loop, server) in zip(loops.loops, serverLoops) {
      buffered.append(
        await withCheckedContinuation { counted in
          loop.execute { counted.resume(returning: server.value.bufferedBytes) }
        })
    }
    return buffered
  }

  /// Closes the listening socket. Open connections stay open.
  public func stopAccepting() {
    listener.withLock { $0 }?.stop()
  }

  /// Stops accepting, closes idle connections, and sends `Connection: close` with the responses to running requests.
  /// Connections that are open after `limit` are closed. Returns when all connections are closed.
  public func shutdown(within limit: Duration) async {
    guard let listener = listener.withLock({ $0 }) else { return }
    // First, so that a client whose connection is closed cannot open a new one.
    await withCheckedContinuation { stopped in listener.stop { stopped.resume() } }
    for (loop, server) in zip(loops.loops, serverLoops) {
      loop.execute { server.value.drain() }
      loop.execute(after: limit) { server.value.closeAll() }
    }
    await listener.allConnectionsEnded()
  }
}

/// Counts refused connections for the log. A flood of connections must not fill the disk.
final class RefusedConnections: Sendable {
  /// The shortest time between two lines.
  static let pause = Duration.seconds(10)

  private let state = Mutex<(count: Int, nextLine: MonotonicInstant)>((0, MonotonicInstant(nanoseconds: 0)))

  /// Counts a connection.
  /// - Returns: the number of connections since the last line, if it is time for another one.
  func add(at now: MonotonicInstant) -> Int? {
    state.withLock { state in
      state.count += 1
      guard now.nanoseconds >= state.nextLine.nanoseconds else { return nil }
      defer { state = (0, now.advanced(by: Self.pause)) }
      return state.count
    }
  }
}

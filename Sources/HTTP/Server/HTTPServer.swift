public import Logging
public import Sockets
import Synchronization

/// Serves a ``Router`` over HTTP/1.1.
///
/// Handlers run where their connection's event loop is, so that a request costs no change of threads; what
/// they await runs where it likes. Several servers can share the loops.
public final class HTTPServer: Sendable {
  private let configuration: HTTPServerConfiguration
  private let core: ServerCore
  private let loops: EventLoopGroup
  private let serverLoops: [LoopBound<ServerLoop>]
  private let listener = Mutex<Listener?>(nil)

  /// A server that does not listen yet.
  ///
  /// - Parameter onResponse: is told of every answer, on the event loop that gave it: it must not wait.
  public init(
    configuration: HTTPServerConfiguration, router: Router, logger: Logger,
    onResponse: (@Sendable (RequestSummary) -> Void)? = nil
  ) {
    self.configuration = configuration
    let loops = configuration.eventLoops.map { EventLoopGroup(count: $0) } ?? .shared
    let core = ServerCore(
      limits: configuration.limits,
      heldBytes: configuration.limits.heldBytes(ofLoops: loops.loops.count),
      waits: ConnectionState.Waits(configuration.deadlines),
      trustedProxies: configuration.trustedProxies, logger: logger, onResponse: onResponse)
    self.core = core
    self.loops = loops
    serverLoops = loops.loops.map { LoopBound(ServerLoop(core: core, router: router, loop: $0), to: $0) }
  }

  /// Listens, and returns the address with the port that is in use.
  ///
  /// - Throws: `SocketError` if the address cannot be resolved or bound.
  /// - Precondition: the server was not started before.
  public func start() throws -> SocketAddress {
    let listener = try Listener(listening, loops: loops, events: events())
    self.listener.withLock { current in
      precondition(current == nil, "A server is started once.")
      current = listener
    }
    return listener.address
  }

  /// Where to listen, and to how many.
  var listening: Listener.Configuration {
    var settings = Listener.Configuration(host: configuration.host, port: configuration.port)
    settings.backlog = configuration.backlog
    settings.maximumConnections = configuration.limits.connections
    settings.maximumConnectionsPerAddress = configuration.limits.connectionsPerAddress
    settings.speaksForMany = { [proxies = configuration.trustedProxies] peer in
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
    events.onTrouble = { core.logger.error("Accepting connections rests", metadata: ["error": "\($0)"]) }
    events.onRefusal = { address in
      core.logger.notice("Too many connections", metadata: ["remoteAddress": "\(address)"])
      return Self.refusal()
    }
    return events
  }

  /// What a connection beyond the limits is told.
  private static func refusal() -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    let requestID = RequestID.generate(using: &generator)
    var bytes: [UInt8] = []
    // Its fields are constants, so it does not throw.
    try? ResponseEncoder.encode(
      Response(.overloaded("There are too many connections."), requestID: requestID),
      form: ConnectionState.AnswerForm(closes: true), cacheControl: "no-store", requestID: requestID,
      dateField: DateField.current.line, to: &bytes)
    return bytes
  }

  /// How many connections are open.
  public var connectionCount: Int { listener.withLock { $0?.connectionCount ?? 0 } }

  /// Lets another router answer from now on, and returns when every connection has it. A request whose head has come
  /// before is answered by the router that it met: nothing is refused or cut for the change.
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

  /// Returns when each of the event loops has had a turn, which shows that none of them stands still.
  public func awaitTurns() async {
    for loop in loops.loops {
      await withCheckedContinuation { turn in loop.execute { turn.resume() } }
    }
  }

  /// Bytes that are held for clients now, by event loop.
  func heldBytes() async -> [Int] {
    var held: [Int] = []
    for (loop, server) in zip(loops.loops, serverLoops) {
      held.append(
        await withCheckedContinuation { counted in
          loop.execute { counted.resume(returning: server.value.heldBytes) }
        })
    }
    return held
  }

  /// Accepts no more connections; what is connected goes on.
  public func stopAccepting() {
    listener.withLock { $0 }?.stop()
  }

  /// Accepts no more, closes idle connections, lets running requests finish with `Connection: close`, and
  /// returns when all are gone; what is left after `limit` is cut.
  public func shutdown(within limit: Duration) async {
    guard let listener = listener.withLock({ $0 }) else { return }
    // First of all, so that whoever sees its connection end cannot open a new one.
    await withCheckedContinuation { stopped in listener.stop { stopped.resume() } }
    for (loop, server) in zip(loops.loops, serverLoops) {
      loop.execute { server.value.drain() }
      loop.execute(after: limit) { server.value.cut() }
    }
    await listener.allConnectionsEnded()
  }
}

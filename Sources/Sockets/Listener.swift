/// Accepts TCP connections and deals them out to the event loops.
///
/// Running out of descriptors or memory does not end it: it rests a little and tries again, while
/// clients wait in the backlog.
public final class Listener: Sendable {
  /// Where a listener listens and how many it lets in.
  public struct Configuration: Sendable {
    /// A name or a numeric address; of a name the first address is used, `::` takes IPv4 too.
    public var host: String
    /// The port, or 0 for one that the system chooses.
    public var port: UInt16
    /// How many connections the system keeps until they are accepted.
    public var backlog: Int32 = 1024
    /// Connections at once.
    public var maximumConnections = 16_384
    /// Connections at once from one IPv4 address or IPv6 /64; nil for no such limit.
    public var maximumConnectionsPerAddress: Int?
    /// Whether many share this address, as behind a proxy, so that the limit for one does not apply.
    public var speaksForMany: @Sendable (SocketAddress) -> Bool = { _ in false }

    /// A configuration with the defaults for everything but the address.
    public init(host: String, port: UInt16) {
      self.host = host
      self.port = port
    }
  }

  /// What a listener tells its owner. Called on one of the loops.
  public struct Events: Sendable {
    /// A connection is there. Called on the connection's own loop; it is for the callee to start it.
    public var onConnection: @Sendable (Connection) -> Void
    /// A connection is beyond the limits. What is returned is written to it, as far as it fits at once,
    /// before it is closed.
    public var onRefusal: @Sendable (SocketAddress) -> [UInt8] = { _ in [] }
    /// Accepting failed and rests for a while.
    public var onTrouble: @Sendable (SocketError) -> Void = { _ in }

    /// Events of which only connections are heard.
    public init(onConnection: @escaping @Sendable (Connection) -> Void) {
      self.onConnection = onConnection
    }
  }

  /// The address that is bound, with the port in use.
  public let address: SocketAddress
  private let loop: EventLoop
  private let acceptor: LoopBound<Acceptor>
  private let census: ConnectionCensus

  /// Listens at once; connections begin to arrive before this returns.
  ///
  /// - Throws: ``SocketError`` if the host cannot be resolved or the address not be bound.
  public convenience init(
    _ configuration: Configuration, loops: EventLoopGroup, events: Events
  ) throws(SocketError) {
    try self.init(configuration, loops: loops, events: events, accept: acceptFromSystem)
  }

  init(
    _ configuration: Configuration, loops: EventLoopGroup, events: Events,
    accept: @escaping AcceptFunction
  ) throws(SocketError) {
    let descriptor = try ListeningSocket.open(
      host: configuration.host, port: configuration.port, backlog: configuration.backlog)
    address = try SocketAddress.local(of: descriptor)
    loop = loops.next()
    census = ConnectionCensus(
      maximum: configuration.maximumConnections,
      maximumPerAddress: configuration.maximumConnectionsPerAddress,
      speaksForMany: configuration.speaksForMany)
    let acceptor = LoopBound(
      Acceptor(
        descriptor: descriptor, loop: loop, loops: loops, census: census, events: events,
        accept: accept), to: loop)
    self.acceptor = acceptor
    loop.execute { acceptor.value.start() }
  }

  deinit { stop() }

  /// How many connections are open that came through this listener.
  public var connectionCount: Int { census.count }

  /// Accepts no more and closes the listening socket; what is connected stays.
  ///
  /// - Parameter action: is run on a loop when new connections are refused.
  public func stop(then action: @escaping @Sendable () -> Void = {}) {
    let acceptor = acceptor
    loop.execute { acceptor.value.stop(then: action) }
  }

  /// Waits until the listener has stopped and its last connection is closed. To be called after ``stop()``.
  public func allConnectionsEnded() async {
    await withCheckedContinuation { continuation in
      // On the loop, so that what was accepted before it stopped has been counted.
      loop.execute { [census] in census.whenEmpty { continuation.resume() } }
    }
  }
}

/// Accepts TCP connections and distributes them among the event loops.
///
/// After a lack of descriptors or memory it pauses and retries, while clients wait in the backlog.
public final class Listener: Sendable {
  /// The address of a listener, and its limits.
  public struct Configuration: Sendable {
    /// A host name, of which the first address is used, or a numeric address; `::` accepts IPv4 too.
    public var host: String
    /// The port, or 0 for one that the system chooses.
    public var port: UInt16
    /// The most connections that the system queues until they are accepted.
    public var backlog: Int32 = 1024
    /// The most open connections.
    public var maximumConnections = 16_384
    /// The most open connections from one IPv4 address or IPv6 /64; nil for no such limit.
    public var maximumConnectionsPerAddress: Int?
    /// Whether the limit per address does not apply to an address, such as a proxy that many clients share.
    public var isExemptFromAddressLimit: @Sendable (SocketAddress) -> Bool = { _ in false }

    /// A configuration with the defaults for everything but the address.
    public init(host: String, port: UInt16) {
      self.host = host
      self.port = port
    }
  }

  /// The callbacks of a listener, which run on the loops.
  public struct Events: Sendable {
    /// Called for an accepted connection, on its loop. The callee starts the connection.
    public var onConnection: @Sendable (Connection) -> Void
    /// Called for a connection beyond the limits. The returned bytes are sent, as far as the socket accepts them at once,
    /// and the connection is closed.
    public var onRefusal: @Sendable (SocketAddress) -> [UInt8] = { _ in [] }
    /// Called when accepting failed; the listener pauses and retries.
    public var onAcceptError: @Sendable (SocketError) -> Void = { _ in }

    /// Callbacks that handle accepted connections only.
    public init(onConnection: @escaping @Sendable (Connection) -> Void) {
      self.onConnection = onConnection
    }
  }

  /// The bound address, with the port in use.
  public let address: SocketAddress
  private let loop: EventLoop
  private let acceptor: LoopBound<Acceptor>
  private let limiter: ConnectionLimiter

  /// Starts to listen. `onConnection` may be called before this returns.
  ///
  /// - Throws: ``SocketError`` if the host cannot be resolved or the address cannot be bound.
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
    limiter = ConnectionLimiter(
      maximum: configuration.maximumConnections,
      maximumPerAddress: configuration.maximumConnectionsPerAddress,
      isExemptFromAddressLimit: configuration.isExemptFromAddressLimit)
    let acceptor = LoopBound(
      Acceptor(
        descriptor: descriptor, loop: loop, loops: loops, limiter: limiter, events: events,
        accept: accept), to: loop)
    self.acceptor = acceptor
    loop.execute { acceptor.value.start() }
  }

  deinit { stop() }

  /// The number of open connections that this listener accepted.
  public var connectionCount: Int { limiter.count }

  /// Closes the listening socket. Open connections stay open.
  ///
  /// - Parameter action: runs on a loop when new connections are refused.
  public func stop(then action: @escaping @Sendable () -> Void = {}) {
    let acceptor = acceptor
    loop.execute { acceptor.value.stop(then: action) }
  }

  /// Waits until the last connection is closed. Call ``stop(then:)`` first.
  public func allConnectionsEnded() async {
    await withCheckedContinuation { continuation in
      // On the loop, so that connections accepted before the stop are counted.
      loop.execute { [limiter] in limiter.whenEmpty { continuation.resume() } }
    }
  }
}

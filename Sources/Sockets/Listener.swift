import Foundation
import Platform

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
    /// Called for a connection beyond the limits. The returned bytes are sent, as far as the socket accepts them at
    /// once, and the connection is closed.
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

/// Opens listening sockets.
enum ListeningSocket {
  /// Resolves the host, binds and listens.
  ///
  /// - Returns: the descriptor, non-blocking and closed in child processes.
  static func open(host: String, port: UInt16, backlog: Int32) throws(SocketError) -> Int32 {
    let resolved = try resolve(host: host, port: port)
    defer { freeaddrinfo(resolved) }
    let info = resolved.pointee
    let descriptor = socket(info.ai_family, info.ai_socktype, info.ai_protocol)
    guard descriptor >= 0 else { throw .last("socket") }
    Platform.prepare(descriptor)
    do throws(SocketError) {
      // A restarted server can bind while connections of its predecessor are in TIME_WAIT.
      try set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
      // Accepted sockets inherit the option, which saves a system call for each.
      try set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
      if info.ai_family == AF_INET6 { try set(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 0) }
      guard bind(descriptor, info.ai_addr, info.ai_addrlen) == 0 else {
        throw SocketError.last("bind \(SocketAddress(host: host, port: port))")
      }
      guard listen(descriptor, backlog) == 0 else { throw SocketError.last("listen") }
    } catch {
      Platform.close(descriptor)
      throw error
    }
    return descriptor
  }

  private static func resolve(
    host: String, port: UInt16
  ) throws(SocketError) -> UnsafeMutablePointer<addrinfo> {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Platform.streamSocket
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
    var resolved: UnsafeMutablePointer<addrinfo>?
    let status = getaddrinfo(host, String(port), &hints, &resolved)
    guard status == 0, let resolved else { throw SocketError(operation: "resolve \(host)", code: status) }
    return resolved
  }

  private static func set(
    _ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32
  ) throws(SocketError) {
    var value = value
    guard setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw .last("setsockopt")
    }
  }
}

/// The process's limit of open descriptors, which is also its limit of connections.
public enum DescriptorLimit {
  /// Raises the soft limit to the hard limit. The usual soft limit of 1,024 is for programs that call select(2), which
  /// this one does not.
  ///
  /// - Returns: the new limit; 0 if it cannot be read.
  @discardableResult
  public static func raise() -> UInt {
    var limit = rlimit()
    guard getrlimit(Platform.openFiles, &limit) == 0 else { return 0 }
    guard limit.rlim_cur < limit.rlim_max else { return limit.rlim_cur }
    let before = limit.rlim_cur
    limit.rlim_cur = limit.rlim_max
    return setrlimit(Platform.openFiles, &limit) == 0 ? limit.rlim_cur : before
  }
}

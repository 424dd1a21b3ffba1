/// The address, limits and timeouts of a server.
public struct HTTPServerConfiguration: Sendable, Hashable {
  /// A name or a numeric IPv4 or IPv6 address; `::` takes both families.
  public var host: String
  /// The port, or 0 for one that the system chooses.
  public var port: UInt16
  /// The limits of sizes and counts.
  public var limits = HTTPLimits()
  /// The timeouts.
  public var timeouts = HTTPTimeouts()
  /// The proxies whose header fields name the client.
  public var trustedProxies = TrustedProxies()
  /// The number of event loops of its own; nil for the shared ones, one for each active core.
  public var eventLoops: Int?
  /// The most connections that the system queues until they are accepted.
  public var backlog: Int32 = 1024

  /// A configuration with the defaults for everything but the address.
  public init(host: String = "127.0.0.1", port: UInt16 = 0) {
    self.host = host
    self.port = port
  }
}

/// The timeouts of a connection, which `ConnectionState.deadlinePassed` enforces.
///
/// Each runs from a fixed instant, so that a client that sends slowly does not extend it.
public struct HTTPTimeouts: Sendable, Hashable {
  /// From the first byte of a request to the end of its header section. Then 408.
  public var head = Duration.seconds(10)
  /// From the end of the header section to the end of the body. Then 408.
  public var body = Duration.seconds(30)
  /// From the end of the request to the response. Then 503 `overloaded`, and the handler's task is cancelled.
  public var handler = Duration.seconds(30)
  /// From the instant when the socket's buffer is full until all of the response is sent. Then the connection is
  /// closed.
  public var write = Duration.seconds(30)
  /// From the end of a response, or from the accept, to the first byte of a request. Then the connection is closed.
  public var idle = Duration.seconds(60)
  /// From the last response until the client closes its side. Then the connection is closed.
  public var linger = Duration.seconds(2)

  /// The defaults.
  public init() {}
}

/// The limits of sizes and counts. A request beyond a limit is refused, and its connection is closed.
public struct HTTPLimits: Sendable, Hashable {
  /// Bytes of the request line: 414 beyond the limit.
  public var requestLine = 8_192
  /// Bytes of the request line and the header section together; of the trailer section; and of all chunk extensions of
  /// a body together: 431 beyond.
  public var head = 16_384
  /// Field lines in a header or trailer section: 431 beyond.
  public var fields = 64
  /// Bytes of the body where no route matches.
  public var unroutedBody = 65_536
  /// Bytes that all connections together may buffer: incomplete requests, pipelined requests, and unread responses.
  ///
  /// Each event loop has its part, at least a twelfth. Beyond it the connections with the largest buffers are answered
  /// 503, or closed if they do not read their responses. The limit protects the memory before a client is
  /// authenticated.
  public var bufferedBytes = 48 << 20
  /// Requests on one connection; the response to the last one has `Connection: close`.
  public var requestsPerConnection = 100_000
  /// Open connections: a new one beyond the limit is answered 503 and closed.
  public var connections = 16_384
  /// Open connections from one IPv4 address or IPv6 /64; nil for no such limit. Trusted proxies and this machine are
  /// exempt, because many clients share their addresses.
  public var connectionsPerAddress: Int? = 1_024

  /// The defaults.
  public init() {}

  /// The part of ``bufferedBytes`` that each of `count` event loops has.
  func bufferedBytes(ofLoops count: Int) -> Int { bufferedBytes / min(count, 12) }
}

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
  /// 503, or closed if they do not read their responses. The limit protects the memory before a client is authenticated.
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

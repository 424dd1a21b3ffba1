/// How much of anything a client may send. What exceeds it is refused, and the connection closed.
public struct HTTPLimits: Sendable, Hashable {
  /// Bytes of the request line: 414 beyond.
  public var requestLine = 8_192
  /// Bytes of the request line and the header section together; of the trailer section; and of all chunk extensions of
  /// a body together: 431 beyond.
  public var head = 16_384
  /// Field lines in a header or trailer section: 431 beyond.
  public var fields = 64
  /// Bytes of the body where no route matches.
  public var unroutedBody = 65_536
  /// Bytes that are held for all connections together: of requests that are still coming, of what waits behind others,
  /// and of answers that were not fetched. Each event loop has its part, but not less than a twelfth. Beyond it those
  /// for whom most is held are answered 503, or cut off if they do not fetch their answers: nobody has to say who he is
  /// before he sends a body.
  public var heldBytes = 48 << 20
  /// Requests on one connection; the last one is answered with `Connection: close`.
  public var requestsPerConnection = 100_000
  /// Connections at once: beyond it new ones are answered 503 and closed.
  public var connections = 16_384
  /// Connections at once from one IPv4 address or IPv6 /64, nil for no such limit. Trusted proxies and this machine
  /// itself, where a proxy is most likely, are not held to it: they speak for many.
  public var connectionsPerAddress: Int? = 1_024

  /// The defaults.
  public init() {}

  /// The part that one of so many event loops has of the room for ``heldBytes``.
  func heldBytes(ofLoops count: Int) -> Int { heldBytes / min(count, 12) }
}

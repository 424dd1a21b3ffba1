/// How much of anything a client may send. What exceeds it is refused, and the connection closed.
public struct HTTPLimits: Sendable, Hashable {
  /// Bytes of the request line: 414 beyond.
  public var requestLine = 8_192
  /// Bytes of the request line and the header section together: 431 beyond.
  public var head = 16_384
  /// Field lines in a header or trailer section: 431 beyond.
  public var fields = 64
  /// Bytes of the body where no route matches.
  public var unroutedBody = 65_536
  /// Bytes of all bodies together of which the rest is still to come; each event loop has its part, but not less than a
  /// sixteenth. Beyond it the longest of them are answered 503 and their connections closed: nobody has to say who he is
  /// before he sends a body.
  public var unfinishedBodies = 64 << 20
  /// Requests on one connection; the last one is answered with `Connection: close`.
  public var requestsPerConnection = 100_000
  /// Connections at once: beyond it new ones are answered 503 and closed.
  public var connections = 16_384
  /// Connections at once from one IPv4 address or IPv6 /64, nil for no such limit. Trusted proxies and this machine
  /// itself, where a proxy is most likely, are not held to it: they speak for many.
  public var connectionsPerAddress: Int? = 1_024

  /// The defaults.
  public init() {}

  /// The part that one of so many event loops has of the room for ``unfinishedBodies``.
  func unfinishedBodies(ofLoops count: Int) -> Int { unfinishedBodies / min(count, 16) }
}

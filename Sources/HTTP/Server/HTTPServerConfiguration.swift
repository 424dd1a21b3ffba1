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

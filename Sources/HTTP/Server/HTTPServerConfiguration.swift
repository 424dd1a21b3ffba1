/// Where a server listens and what it allows.
public struct HTTPServerConfiguration: Sendable, Hashable {
  /// A name or a numeric IPv4 or IPv6 address; `::` takes both families.
  public var host: String
  /// The port, or 0 for one that the system chooses.
  public var port: UInt16
  /// How much a client may send.
  public var limits = HTTPLimits()
  /// How long anything may take.
  public var deadlines = HTTPDeadlines()
  /// Whose word on who asks is believed.
  public var trustedProxies = TrustedProxies()
  /// How many event loops share the connections; nil for one for each active core.
  public var eventLoops: Int?
  /// How many connections the system keeps until they are accepted.
  public var backlog: Int32 = 1024

  /// A configuration with the defaults for everything but the address.
  public init(host: String = "127.0.0.1", port: UInt16 = 0) {
    self.host = host
    self.port = port
  }
}

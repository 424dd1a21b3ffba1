/// One end of a TCP connection.
public struct SocketAddress: Sendable, Hashable {
  /// The numeric IPv4 or IPv6 address. An IPv4 client of an IPv6 socket (`::ffff:192.0.2.1`) has its IPv4 address.
  public let host: String
  /// The port.
  public let port: UInt16

  /// An address from its parts.
  public init(host: String, port: UInt16) {
    self.host = host
    self.port = port
  }
}

extension SocketAddress: CustomStringConvertible {
  /// `192.0.2.1:3000` or `[2001:db8::1]:3000`.
  public var description: String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}

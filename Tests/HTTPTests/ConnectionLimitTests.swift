import Logging
import Platform
import Sockets
import Testing

@testable import HTTP

/// The limits of connections.
@Suite struct ConnectionLimitTests {
  private static func listening(_ configuration: HTTPServerConfiguration) -> Listener.Configuration {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return HTTPServer(configuration: configuration, router: Router(), logger: logger).listenerConfiguration
  }

  @Test func `the limits of all connections and of one address's connections reach the listener`() {
    let usual = Self.listening(HTTPServerConfiguration())
    #expect(usual.maximumConnections == 16_384)
    #expect(usual.maximumConnectionsPerAddress == 1_024)
    var configuration = HTTPServerConfiguration()
    configuration.limits.connections = 20
    configuration.limits.connectionsPerAddress = 3
    #expect(Self.listening(configuration).maximumConnections == 20)
    #expect(Self.listening(configuration).maximumConnectionsPerAddress == 3)
  }

  @Test func `refused connections are logged at once, and then with their number every ten seconds`() {
    let refused = RefusedConnections()
    let start = MonotonicInstant(nanoseconds: 1)
    let lines = (0..<30_000).map { refused.add(at: start.advanced(by: .milliseconds($0))) }
    #expect(lines.compactMap(\.self) == [1, 10_000, 10_000])
  }

  @Test func `only trusted proxies and loopback addresses are exempt from the connection limit per address`()
    throws
  {
    var configuration = HTTPServerConfiguration()
    configuration.trustedProxies = TrustedProxies([try #require(IPNetwork("10.0.0.0/8"))])
    let isExemptFromAddressLimit = Self.listening(configuration).isExemptFromAddressLimit
    for (host, isFree) in [
      ("127.0.0.1", true), ("::1", true), ("10.1.2.3", true), ("192.0.2.1", false), ("2001:db8::1", false),
    ] {
      #expect(isExemptFromAddressLimit(SocketAddress(host: host, port: 1)) == isFree, "\(host)")
    }
  }
}

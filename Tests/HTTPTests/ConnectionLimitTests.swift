import Logging
import Sockets
import Testing

@testable import HTTP

/// How many connections a server lets in.
@Suite struct ConnectionLimitTests {
  private static func listening(_ configuration: HTTPServerConfiguration) -> Listener.Configuration {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return HTTPServer(configuration: configuration, router: Router(), logger: logger).listening
  }

  @Test func `one address has a part of the places, and all together have the rest`() {
    let usual = Self.listening(HTTPServerConfiguration())
    #expect(usual.maximumConnections == 16_384)
    #expect(usual.maximumConnectionsPerAddress == 1_024)
    var configuration = HTTPServerConfiguration()
    configuration.limits.connections = 20
    configuration.limits.connectionsPerAddress = 3
    #expect(Self.listening(configuration).maximumConnections == 20)
    #expect(Self.listening(configuration).maximumConnectionsPerAddress == 3)
  }

  @Test func `only a trusted proxy and this machine speak for many`() throws {
    var configuration = HTTPServerConfiguration()
    configuration.trustedProxies = TrustedProxies([try #require(IPNetwork("10.0.0.0/8"))])
    let speaksForMany = Self.listening(configuration).speaksForMany
    for (host, isFree) in [
      ("127.0.0.1", true), ("::1", true), ("10.1.2.3", true), ("192.0.2.1", false), ("2001:db8::1", false),
    ] {
      #expect(speaksForMany(SocketAddress(host: host, port: 1)) == isFree, "\(host)")
    }
  }
}

import HTTP
import TestSocket
import Testing

/// The client address from `Forwarded` (RFC 7239), whose first entries a client can forge.
@Suite struct ForwardedHeaderTests {
  private static let proxies = TrustedProxies(
    ["10.0.0.0/8", "2001:db8:aaaa::/48", "127.0.0.0/8"].compactMap { IPNetwork($0) }, header: .forwarded)

  private func client(of peer: String, _ lines: String...) throws -> String {
    "\(Self.proxies.client(of: try #require(IPAddress(peer)), forwardedFor: lines))"
  }

  @Test(arguments: [
    ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"), ("For=192.0.2.60", "192.0.2.60"),
    (#"For="[2001:db8:cafe::17]:4711""#, "2001:db8:cafe::17"), (#"for="192.0.2.43:47011""#, "192.0.2.43"),
    (#"for="[2001:db8::1]""#, "2001:db8::1"), (#"for="192.0.2.60""#, "192.0.2.60"),
    (#"for="192\.0.2.\60""#, "192.0.2.60"), ("by=10.1.1.1;FOR=192.0.2.60", "192.0.2.60"),
    ("for=192.0.2.60;", "192.0.2.60"), (";;for=192.0.2.60;;proto=https", "192.0.2.60"),
    (#"for=192.0.2.60;host="a,b;c\"d,for=1.1.1.1""#, "192.0.2.60"), ("\t for=192.0.2.60 ", "192.0.2.60"),
    (#"host="ends\\";for=192.0.2.60"#, "192.0.2.60"),
  ])
  func `the client address of a Forwarded element is its for parameter`(element: String, address: String)
    throws
  {
    #expect(try client(of: "10.0.0.1", element) == address)
    #expect(try client(of: "10.0.0.1", "for=1.1.1.1, \(element)") == address)
    #expect(try client(of: "10.0.0.1", "\(element),for=10.0.0.7", #"for="[2001:db8:aaaa::1]""#) == address)
    #expect(try client(of: "203.0.113.1", element) == "203.0.113.1")
  }

  @Test(arguments: [
    "", ",", ";", "192.0.2.60", "for", "for=", "=192.0.2.60", "for=unknown", "for=_hidden", "by=192.0.2.60",
    "for=192.0.2.60:80", "for=[2001:db8::1]", #"for="2001:db8::1""#, #"for="[2001:db8::1""#,
    #"for="[192.0.2.60]""#,
    #"for="192.0.2.60"#, #"for="192.0.2.60""# + "x", "for=192.0.2.60;for=192.0.2.61",
    "for=192.0.2.60;FOR=192.0.2.60",
    "for =192.0.2.60", "for= 192.0.2.60", "for=192.0.2.60; proto=http", "for=192.0.2.60 ;proto=http",
    #"for="192.0.2.60:_port""#, #"for="192.0.2.60:""#, #"for="""#, "for=192.0.2.60;proto",
    #"for="192.0.2.60\"#,
  ])
  func `a malformed Forwarded element gives the peer's address`(element: String) throws {
    #expect(try client(of: "10.0.0.1", element) == "10.0.0.1")
    #expect(try client(of: "10.0.0.1", "for=192.0.2.60", element, "for=10.0.0.2") == "10.0.0.1")
  }

  @Test func `a client cannot change its address by a forged or unclosed Forwarded element`() throws {
    let pieces = [
      "for=1.1.1.1", "for=10.0.0.2", "\"", "\\", "\\\"", ",", ";", "for=\"", "host=\"a", "garbage", " ", "=",
    ]
    let ends = [
      #"for=203.0.113.77"#, #"for="203.0.113.77:99";host="a\"b,c""#, #"host="\\";for="203.0.113.77""#,
    ]
    for _ in 0..<2_000 {
      let written = (0..<Int.random(in: 0...12)).map { _ in pieces.randomElement() ?? "" }.joined()
      let end = ends.randomElement() ?? ""
      #expect(try client(of: "10.0.0.1", "\(written),\(end)", "for=10.0.0.9") == "203.0.113.77", "\(written)")
      #expect(try client(of: "10.0.0.1", written, end, "for=10.0.0.9") == "203.0.113.77", "\(written)")
    }
  }

  /// The client can set the header that the proxy does not write.
  @Test(arguments: [
    (ForwardedHeader.forwarded, "203.0.113.6"), (.xForwardedFor, "203.0.113.5"),
  ])
  func `only the header that the proxy writes decides the client address`(
    header: ForwardedHeader, client: String
  ) throws {
    let fixture = try ServerFixture {
      $0.trustedProxies = TrustedProxies(["127.0.0.0/8"].compactMap { IPNetwork($0) }, header: header)
    }
    let fields = "X-Forwarded-For: 203.0.113.5\r\nForwarded: for=203.0.113.6\r\nConnection: close\r\n\r\n"
    #expect(try fixture.exchange("GET /client HTTP/1.1\r\nHost: a\r\n" + fields).map(\.text) == [client])
    let other = header == .forwarded ? "X-Forwarded-For: 203.0.113.5" : "Forwarded: for=203.0.113.6"
    let alone = "GET /client HTTP/1.1\r\nHost: a\r\n\(other)\r\nConnection: close\r\n\r\n"
    let untouched = try ServerFixture {
      $0.trustedProxies = TrustedProxies(["127.0.0.0/8"].compactMap { IPNetwork($0) }, header: header)
    }
    #expect(try untouched.exchange(alone).map(\.text) == ["127.0.0.1"])
  }
}

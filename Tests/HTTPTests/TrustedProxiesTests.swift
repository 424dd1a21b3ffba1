import HTTP
import HTTPTypes
import TestSocket
import Testing

/// The client address behind proxies, with headers that a client can forge.
@Suite struct TrustedProxiesTests {
  private static func networks(_ texts: String...) -> TrustedProxies {
    TrustedProxies(texts.compactMap { IPNetwork($0) })
  }

  private static let proxies = networks("10.0.0.0/8", "2001:db8:aaaa::/48", "192.0.2.7")

  private func client(of peer: String, _ lines: String...) throws -> String {
    "\(Self.proxies.client(of: try #require(IPAddress(peer)), forwardedFor: lines))"
  }

  @Test func `only a trusted proxy's header decides the client address`() throws {
    #expect(try client(of: "203.0.113.1", "198.51.100.9") == "203.0.113.1")
    #expect(try client(of: "192.0.2.8", "198.51.100.9") == "192.0.2.8")
    #expect(try client(of: "192.0.2.7", "198.51.100.9") == "198.51.100.9")
    #expect(try client(of: "10.1.2.3", "198.51.100.9") == "198.51.100.9")
    #expect(try client(of: "2001:db8:aaaa::5", "2001:db8:1::1") == "2001:db8:1::1")
    #expect(try client(of: "::ffff:10.1.2.3", "198.51.100.9") == "198.51.100.9")
  }

  @Test func `X-Forwarded-For entries before the proxy's own are ignored`() throws {
    #expect(try client(of: "10.0.0.1", "1.1.1.1, 198.51.100.9") == "198.51.100.9")
    #expect(try client(of: "10.0.0.1", "1.1.1.1", "198.51.100.9") == "198.51.100.9")
    #expect(try client(of: "10.0.0.1", "10.9.9.9, 127.0.0.1, 198.51.100.9, 10.0.0.2") == "198.51.100.9")
    #expect(try client(of: "10.0.0.1", "garbage, <script>, 198.51.100.9") == "198.51.100.9")
    #expect(try client(of: "10.0.0.1", "198.51.100.9,10.0.0.3", "10.0.0.2") == "198.51.100.9")
  }

  @Test func `a list of trusted proxies only gives its first entry`() throws {
    #expect(try client(of: "10.0.0.1", "10.0.0.3, 10.0.0.2") == "10.0.0.3")
    #expect(try client(of: "10.0.0.1") == "10.0.0.1")
  }

  @Test(arguments: [
    ("198.51.100.9:1234", "198.51.100.9"), ("[2001:db8::1]", "2001:db8::1"),
    ("[2001:db8::1]:443", "2001:db8::1"), ("2001:db8::1", "2001:db8::1"),
    (" \t198.51.100.9\t", "198.51.100.9"),
    ("2001:DB8:0:0::1", "2001:db8::1"), ("::ffff:198.51.100.9", "198.51.100.9"),
  ])
  func `ports, brackets and spaces of an X-Forwarded-For entry are removed`(element: String, address: String)
    throws
  {
    #expect(try client(of: "10.0.0.1", element) == address)
  }

  @Test(arguments: [
    "", " ", ",", "198.51.100.9,", "unknown", "_hidden", "198.51.100", "198.51.100.256", "198.51.100.09",
    "0x7f.1", "198.51.100.9:", "198.51.100.9:123456", "198.51.100.9:a", "[198.51.100.9]", "[2001:db8::1",
    "2001:db8::1]", "[2001:db8::1]443", "[2001:db8::1]:", "[2001:db8::1%eth0]", "fe80::1%eth0", "[]", "[:]",
    "2001:db8::1::2", "198.51.100.9 198.51.100.8", "\"198.51.100.9\"", "for=198.51.100.9", "１９８.51.100.9",
    "198.51.100.9\0", String(repeating: "1", count: 8_000),
  ])
  func `a malformed X-Forwarded-For entry gives the peer's address`(element: String) throws {
    #expect(try client(of: "10.0.0.1", element) == "10.0.0.1")
    #expect(try client(of: "10.0.0.1", "198.51.100.9, \(element), 10.0.0.2") == "10.0.0.1")
  }

  @Test func `more than 31 trusted entries in X-Forwarded-For give the peer's address`() throws {
    let trusted = Array(repeating: "10.0.0.2", count: 31)
    #expect(try client(of: "10.0.0.1", (["198.51.100.9"] + trusted).joined(separator: ",")) == "198.51.100.9")
    let longer = ["198.51.100.9", "10.0.0.2"] + trusted
    #expect(try client(of: "10.0.0.1", longer.joined(separator: ",")) == "10.0.0.1")
    #expect(try client(of: "10.0.0.1", String(repeating: ",", count: 16_000)) == "10.0.0.1")
    // The proxy appends its own entry, however long the forged list is.
    let lie = String(repeating: "1.1.1.1,", count: 2_000)
    #expect(try client(of: "10.0.0.1", lie + "198.51.100.9") == "198.51.100.9")
  }

  @Test func `a client cannot change its address by X-Forwarded-For entries of its own`() throws {
    let pieces = [
      "1.1.1.1", "10.0.0.2", "[::1]:80", "garbage", "", "192.0.2.7", "2001:db8:aaaa::1", ":", "]",
    ]
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<2_000 {
      let written = (0..<Int.random(in: 0...12, using: &generator)).map { _ in
        pieces[Int.random(in: 0..<pieces.count, using: &generator)]
      }
      let line = (written + ["203.0.113.77"]).joined(separator: Bool.random(using: &generator) ? "," : ", ")
      #expect(try client(of: "10.0.0.1", line, "10.0.0.9") == "203.0.113.77", "\(line)")
      #expect(try client(of: "203.0.113.77", line) == "203.0.113.77")
    }
  }

  @Test(arguments: [
    "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/08x", "/8", "::/129", "a", "", "10.0.0.0/-1",
  ])
  func `a malformed IP network is refused`(text: String) { #expect(IPNetwork(text) == nil) }

  @Test func `an IP network contains the addresses with its prefix`() throws {
    let all = try #require(IPNetwork("::/0"))
    let old = try #require(IPNetwork("0.0.0.0/0"))
    let v4 = try #require(IPAddress("8.8.8.8"))
    let v6 = try #require(IPAddress("2001:db8::1"))
    #expect(all.contains(v4) && all.contains(v6))
    #expect(old.contains(v4) && !old.contains(v6))
    let host = try #require(IPNetwork("2001:db8::1"))
    #expect(host.contains(v6))
    #expect(!host.contains(try #require(IPAddress("2001:db8::2"))))
  }

  @Test func `the addresses of an IPv6 slash 64 count as one subscriber, and each IPv4 address as another`()
    throws
  {
    func bits(_ text: String) throws -> UInt128 { try #require(IPAddress(text)).subscriberBits }
    #expect(try bits("192.0.2.1") != bits("192.0.2.2"))
    #expect(try bits("192.0.2.1") == bits("::ffff:192.0.2.1"))
    #expect(try bits("2001:db8:0:1::1") == bits("2001:db8:0:1:ffff:ffff:ffff:ffff"))
    #expect(try bits("2001:db8:0:1::1") != bits("2001:db8:0:2::1"))
  }

  @Test(arguments: [
    ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("10.2.3.4", true), ("172.16.0.1", true),
    ("172.31.255.255", true), ("192.168.1.1", true), ("169.254.1.1", true), ("100.64.0.1", true),
    ("100.127.255.255", true), ("fd00::1", true), ("fc00::1", true), ("fe80::1", true), ("172.32.0.1", false),
    ("172.15.0.1", false), ("100.128.0.1", false), ("11.0.0.1", false), ("17.58.0.1", false),
    ("2001:db8::1", false),
    ("fec0::1", false), ("128.0.0.1", false),
  ])
  func `addresses of private networks are detected`(text: String, isPrivate: Bool) throws {
    #expect(try #require(IPAddress(text)).isPrivate == isPrivate)
  }

  @Test func `a request has the client address that the trusted proxy names`() throws {
    let fixture = try ServerFixture { $0.trustedProxies = Self.networks("127.0.0.0/8") }
    let asked =
      "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 203.0.113.5\r\n"
    let responses = try fixture.exchange(asked + "Connection: close\r\n\r\n")
    #expect(responses.map(\.text) == ["203.0.113.5"])
    #expect(fixture.summaries.all.map { "\($0.clientAddress)" } == ["203.0.113.5"])
    #expect(fixture.summaries.all.map(\.remoteAddress.host) == ["127.0.0.1"])

    let alone = try ServerFixture()
    #expect(try alone.exchange(asked + "Connection: close\r\n\r\n").map(\.text) == ["127.0.0.1"])
  }
}

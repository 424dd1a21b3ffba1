import Testing

@testable import Curl

@Suite struct HostLoadsTests {
  private static let apple = "https://api.storekit.itunes.apple.com"

  private func loads(running count: Int) -> HostLoads {
    var loads = HostLoads(limit: 8)
    for _ in 0..<count { loads.began(Self.apple) }
    return loads
  }

  @Test func `a host takes requests up to the limit, and another one after each end`() {
    var loads = loads(running: 7)
    #expect(loads.haveRoom(for: Self.apple))
    loads.began(Self.apple)
    #expect(!loads.haveRoom(for: Self.apple))
    #expect(loads.haveRoom(for: "https://example.com"))
    loads.ended(Self.apple, by: .http11)
    #expect(loads.haveRoom(for: Self.apple))
  }

  @Test func `a host whose last response came by HTTP/2 takes any number of requests`() {
    var loads = loads(running: 9)
    loads.ended(Self.apple, by: .http2)
    #expect(loads.haveRoom(for: Self.apple))
    // A request without a response says nothing about the version.
    loads.began(Self.apple)
    loads.ended(Self.apple, by: nil)
    #expect(loads.haveRoom(for: Self.apple))
    loads.began(Self.apple)
    loads.ended(Self.apple, by: .http11)
    #expect(!loads.haveRoom(for: Self.apple))
  }

  @Test func `a host to which nothing runs has the limit again`() {
    var loads = loads(running: 1)
    loads.ended(Self.apple, by: .http2)
    for _ in 0..<8 { loads.began(Self.apple) }
    #expect(!loads.haveRoom(for: Self.apple))
  }

  @Test(arguments: [
    ("https://a.example/x?y#z", "https://a.example"), ("http://a.example:81?y", "http://a.example:81"),
    ("https://a.example", "https://a.example"), ("nonsense", "nonsense"),
  ]) func `the host of a transfer is the part of its URL before the path`(url: String, host: String) {
    let transfer = Transfer(id: 1, request: CurlRequest(url: url), isCancelled: CancellationFlag()) { _ in }
    #expect(transfer.host == host)
  }
}

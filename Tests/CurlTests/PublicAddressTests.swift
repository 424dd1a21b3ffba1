import Foundation
import Platform
import Testing

@testable import Curl

@Suite struct PublicAddressTests {
  private func isPublic(_ text: String) throws -> Bool {
    var storage = sockaddr_storage()
    return try withUnsafeMutableBytes(of: &storage) { bytes in
      if text.contains(":") {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        try #require(inet_pton(AF_INET6, text, &address.sin6_addr) == 1)
        bytes.storeBytes(of: address, as: sockaddr_in6.self)
      } else {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        try #require(inet_pton(AF_INET, text, &address.sin_addr) == 1)
        bytes.storeBytes(of: address, as: sockaddr_in.self)
      }
      return try #require(IPAddress(socketAddress: UnsafeRawBufferPointer(bytes))).isPublic
    }
  }

  @Test(arguments: [
    "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
    "64:ff9b:1::1", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "2001::1", "2001:db8::1",
    "2002:a00:1::1", "2002:7f00:1::", "3fff::1", "100::1",
  ])
  func `a special-purpose address is not public`(text: String) throws {
    #expect(try !isPublic(text))
  }

  @Test(arguments: [
    "1.1.1.1", "9.255.255.255", "11.0.0.0", "17.253.144.10", "100.63.255.255", "100.128.0.0", "128.0.0.1",
    "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
    "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:17.253.144.10", "64:ff9b::808:808",
    "2002:808:808::1", "2606:4700::1111", "2620:149::1", "2a00:1450::1", "2001:4860:4860::8888",
  ])
  func `a public address is public`(text: String) throws {
    #expect(try isPublic(text))
  }

  @Test func `a socket address of another family is refused`() {
    for family in [AF_UNIX, AF_UNSPEC] {
      var address = sockaddr()
      address.sa_family = sa_family_t(family)
      #expect(withUnsafeBytes(of: address) { IPAddress(socketAddress: $0) == nil })
    }
    #expect([UInt8]().withUnsafeBytes { IPAddress(socketAddress: $0) == nil })
    #expect([UInt8(AF_INET), 0, 1].withUnsafeBytes { IPAddress(socketAddress: $0) == nil })
  }

  @Test func `a client that refuses private addresses does not connect to one`() async throws {
    var configuration = CurlConfiguration()
    configuration.refusesPrivateAddresses = true
    try await withEcho(configuration) { server, client in
      let urls = [
        server.url("/echo"), server.url("/echo").replacing("127.0.0.1", with: "localhost"),
        server.url("/echo").replacing("127.0.0.1", with: "[::ffff:127.0.0.1]"),
        server.url("/echo").replacing("127.0.0.1", with: "2130706433"),
      ]
      for url in urls {
        await #expect(throws: CurlError.refused("the host has a private address")) {
          _ = try await client.send(CurlRequest(url: url))
        }
      }
    }
  }
}

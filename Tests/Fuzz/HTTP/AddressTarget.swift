import FuzzSupport
import Platform

@testable import HTTP

/// Parses addresses, networks and `X-Forwarded-For`. The input's lines are the fields of one head.
enum AddressTarget {
  static let peer = IPAddress(bits: 0xFFFF_0A00_0001)
  static let proxies = TrustedProxies(["10.0.0.0/8", "fd00::/8"].compactMap { IPNetwork($0) })

  @Sendable static func check(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let address = IPAddress(text) {
      claim(IPAddress(address.description) == address, "an address is read as it is written")
      claim(IPNetwork(text)?.contains(address) == true, "an address is a network of itself")
      claim(IPAddress(bits: address.subscriberBits).subscriberBits == address.subscriberBits, "a subscriber")
    }
    if let slash = text.utf8.firstIndex(of: UInt8(ascii: "/")), let network = IPNetwork(text) {
      let address = IPAddress(text[..<slash])
      claim(address.map(network.contains) == true, "a network contains the address that it is written with")
    }
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let client = proxies.client(of: peer, forwardedFor: lines)
    claim(
      proxies.client(of: peer, forwardedFor: [lines.joined(separator: ",")]) == client,
      "several fields are one list (RFC 9110, section 5.3)")
    claim(
      proxies.client(of: IPAddress(bits: 1), forwardedFor: lines) == IPAddress(bits: 1),
      "only a trusted proxy can name the client")
    // Forged entries before the accepted address change nothing.
    if !proxies.contain(client) {
      claim(
        proxies.client(of: peer, forwardedFor: ["203.0.113.9, nonsense"] + lines) == client,
        "entries of the caller are ignored")
    }
  }
}

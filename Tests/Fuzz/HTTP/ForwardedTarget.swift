import FuzzSupport

@testable import HTTP

/// Parses `Forwarded` (RFC 7239). The input's lines are the fields of one head.
enum ForwardedTarget {
  private static let peer = AddressTarget.peer
  private static let proxies = TrustedProxies(
    ["10.0.0.0/8", "fd00::/8"].compactMap { IPNetwork($0) }, header: .forwarded)

  @Sendable static func check(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let client = proxies.client(of: peer, forwardedFor: lines)
    claim(
      proxies.client(of: IPAddress(bits: 1), forwardedFor: lines) == IPAddress(bits: 1),
      "only a trusted proxy is believed")
    // Forged entries before the accepted address change nothing, even with unclosed quotation marks.
    if !proxies.contain(client) {
      for lie in ["for=203.0.113.9", "for=\"", "for=\"203.0.113.9, \\", ";;=,"] {
        claim(
          proxies.client(of: peer, forwardedFor: [lie] + lines) == client,
          "what a caller wrote himself, in a field of his own, is not believed")
      }
      if !text.utf8.contains(UInt8(ascii: "\"")) {
        for lie in ["for=203.0.113.9,", "for=\",", "for=\"203.0.113.9, \\,"] {
          claim(
            proxies.client(of: peer, forwardedFor: [lie + lines[0]] + lines.dropFirst()) == client,
            "what a caller wrote himself, before what a proxy added, is not believed")
        }
        claim(
          proxies.client(of: peer, forwardedFor: [lines.joined(separator: ",")]) == client,
          "several fields are one list (RFC 9110, section 5.3)")
      }
    }
    guard let address = IPAddress(text) else { return }
    let node = text.contains(":") ? "\"[\(text)]:443\"" : text
    claim(
      proxies.client(of: peer, forwardedFor: ["For=\(node);proto=https;by=_proxy"]) == address,
      "an address is read as a proxy writes it")
  }
}

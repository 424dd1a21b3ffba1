public import HTTPTypes

/// The proxies in front of this server whose word on who asks is believed.
///
/// A proxy adds the address that it was called from at the end of `X-Forwarded-For`, behind whatever the caller had
/// written there himself. So the list is read from its end: what a trusted proxy added is believed, and the first
/// address that is not a trusted proxy's is the client's. Whatever stands before it may be a lie.
public struct TrustedProxies: Sendable, Hashable {
  /// Further proxies than this have not been seen in one chain; a list of them is an attack.
  static let maximumHops = 32

  private let networks: [IPNetwork]

  /// The proxies with an address in one of these.
  public init(_ networks: [IPNetwork] = []) { self.networks = networks }

  /// Whether there are none.
  public var isEmpty: Bool { networks.isEmpty }

  /// Whether the address is a trusted proxy's.
  public func contain(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

  /// Who asks.
  ///
  /// - Parameters:
  ///   - peer: the other end of the connection.
  ///   - forwardedFor: the values of all `X-Forwarded-For` fields in their order, which count as one list
  ///     (RFC 9110 §5.3).
  /// - Returns: the last address in the list that is not a trusted proxy's; the first one if all are trusted; the peer
  ///   if it is not trusted, if there is no list, or if what a trusted proxy wrote cannot be read.
  public func client(of peer: IPAddress, forwardedFor: some BidirectionalCollection<String>) -> IPAddress {
    guard contain(peer) else { return peer }
    var nearest = peer
    var hops = 0
    for line in forwardedFor.reversed() {
      var rest = line.utf8[...]
      while true {
        hops += 1
        let start = rest.lastIndex(of: UInt8(ascii: ",")).map { rest.index(after: $0) } ?? rest.startIndex
        guard hops <= Self.maximumHops, let address = Self.address(in: rest[start...]) else { return peer }
        nearest = address
        guard contain(address) else { return address }
        guard start > rest.startIndex else { break }
        rest = rest[..<rest.index(before: start)]
      }
    }
    return nearest
  }

  /// One element of the list: an address, and by some proxies its port, which is dropped.
  private static func address(in element: Substring.UTF8View) -> IPAddress? {
    let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    var text = element.drop(while: isBlank)
    while let last = text.last, isBlank(last) { text.removeLast() }
    let colon = UInt8(ascii: ":")
    if text.first == UInt8(ascii: "[") {
      guard let end = text.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      let inner = text[text.index(after: text.startIndex)..<end]
      let after = text[text.index(after: end)...]
      guard inner.contains(colon), after.isEmpty || (after.first == colon && isPort(after.dropFirst())) else {
        return nil
      }
      return IPAddress(inner)
    }
    // One colon separates a port from an IPv4 address; more of them are an IPv6 address.
    if let first = text.firstIndex(of: colon), first == text.lastIndex(of: colon) {
      guard isPort(text[text.index(after: first)...]) else { return nil }
      return IPAddress(text[..<first])
    }
    return IPAddress(text)
  }

  private static func isPort(_ text: some Collection<UInt8>) -> Bool {
    (1...5).contains(text.count)
      && text.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }
}

extension TrustedProxies {
  /// Who sent this head over a connection from `peer`. Its fields are looked at only for a trusted proxy.
  func client(of head: RequestHead, from peer: IPAddress) -> IPAddress {
    guard !networks.isEmpty, contain(peer) else { return peer }
    return client(of: peer, forwardedFor: head.fields.filter(\.isForwardedFor).map(\.value))
  }
}

extension HTTPField {
  /// Whether it is `X-Forwarded-For`, which is no standard but is what proxies send.
  public var isForwardedFor: Bool { name.canonicalName == "x-forwarded-for" }
}

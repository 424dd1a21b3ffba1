import HTTPTypes

/// The proxies in front of this server whose word on who asks is believed.
///
/// A proxy adds the address that it was called from at the end of a field, behind whatever the caller had written there
/// himself. So the list is read from its end: what a trusted proxy added is believed, and the first
/// address that is not a trusted proxy's is the client's. Whatever stands before it may be a lie.
public struct TrustedProxies: Sendable, Hashable {
  /// Further proxies than this have not been seen in one chain; a list of them is an attack.
  static let maximumHops = 32

  private let networks: [IPNetwork]
  private let header: ForwardedHeader

  /// The proxies with an address in one of these.
  /// - Parameter header: the field that they write.
  public init(_ networks: [IPNetwork] = [], header: ForwardedHeader = .xForwardedFor) {
    self.networks = networks
    self.header = header
  }

  /// Whether there are none.
  public var isEmpty: Bool { networks.isEmpty }

  /// Whether the address is a trusted proxy's.
  public func contain(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

  /// Who asks.
  ///
  /// - Parameters:
  ///   - peer: the other end of the connection.
  ///   - forwardedFor: the values of all fields with the name of the header, in their order, which count as one list
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
        let start = header.startOfLastElement(of: rest)
        guard hops <= Self.maximumHops, let address = header.address(in: rest[start...]) else { return peer }
        nearest = address
        guard contain(address) else { return address }
        guard start > rest.startIndex else { break }
        rest = rest[..<rest.index(before: start)]
      }
    }
    return nearest
  }
}

extension TrustedProxies {
  /// Who sent this head over a connection from `peer`. Its fields are looked at only for a trusted proxy.
  func client(of head: RequestHead, from peer: IPAddress) -> IPAddress {
    guard !networks.isEmpty, contain(peer) else { return peer }
    return client(of: peer, forwardedFor: head.fields.filter(header.names).map(\.value))
  }
}

import HTTPTypes
import Platform

/// The proxies in front of this server whose header fields name the client.
///
/// A proxy appends the address of its caller to a list; the caller may have forged the entries before it. So the list
/// is read from its end. The first address that is not a trusted proxy's is the client's, and the rest is ignored.
public struct TrustedProxies: Sendable, Hashable {
  /// Real chains are shorter; a longer list is an attack.
  static let maximumHops = 32

  private let networks: [IPNetwork]
  private let header: ForwardedHeader

  /// The proxies with an address in one of these networks.
  /// - Parameter header: the field that they write.
  public init(_ networks: [IPNetwork] = [], header: ForwardedHeader = .xForwardedFor) {
    self.networks = networks
    self.header = header
  }

  /// Whether one of the networks is that of all addresses.
  public var isEveryone: Bool { networks.contains(where: \.isEveryone) }

  /// Whether the address is a trusted proxy's.
  public func contain(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

  /// The client's address.
  ///
  /// - Parameters:
  ///   - peer: the address of the other end of the connection.
  ///   - forwardedFor: the values of all fields with the header's name, in order; they form one list (RFC 9110 §5.3).
  /// - Returns: the last address in the list that is not a trusted proxy's, or the first one if all are trusted. The
  ///   peer, if it is not trusted, if there is no list, or if the entry of a trusted proxy is malformed.
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
  /// The client of a request on a connection from `peer`. The header fields are read only if `peer` is trusted.
  func client(of head: RequestHead, from peer: IPAddress) -> IPAddress {
    guard !networks.isEmpty, contain(peer) else { return peer }
    return client(of: peer, forwardedFor: head.fields.filter(header.names).map(\.value))
  }
}

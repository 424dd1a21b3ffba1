/// A range of addresses that is not part of the public internet.
///
/// The ranges are those of RFC 6890 (the IANA IPv4 and IPv6 Special-Purpose Address Registries) and multicast.
struct SpecialPurposeRange {
  enum Use {
    /// This machine.
    case loopback
    /// A private network, a carrier's shared network, or one link.
    case local
    /// Documentation, benchmarks, protocols, multicast.
    case reserved
  }

  let network: IPNetwork
  let use: Use

  static func contain(_ address: IPAddress, where isWanted: (Use) -> Bool) -> Bool {
    all.contains { isWanted($0.use) && $0.network.contains(address) }
  }

  private static let all = [
    ipv4(0, 0, 0, 0, 8, .reserved),  // this network
    ipv4(10, 0, 0, 0, 8, .local),  // private (RFC 1918)
    ipv4(100, 64, 0, 0, 10, .local),  // carriers (RFC 6598)
    ipv4(127, 0, 0, 0, 8, .loopback),  // RFC 1122 §3.2.1.3
    ipv4(169, 254, 0, 0, 16, .local),  // one link (RFC 3927); the metadata servers of clouds
    ipv4(172, 16, 0, 0, 12, .local),  // private (RFC 1918)
    ipv4(192, 0, 0, 0, 24, .reserved),  // protocol assignments
    ipv4(192, 0, 2, 0, 24, .reserved),  // documentation
    ipv4(192, 88, 99, 0, 24, .reserved),  // 6to4 relays
    ipv4(192, 168, 0, 0, 16, .local),  // private (RFC 1918)
    ipv4(198, 18, 0, 0, 15, .reserved),  // benchmarks
    ipv4(198, 51, 100, 0, 24, .reserved),  // documentation
    ipv4(203, 0, 113, 0, 24, .reserved),  // documentation
    ipv4(224, 0, 0, 0, 3, .reserved),  // multicast, reserved, broadcast
    ipv6(0, 1, 128, .loopback),  // RFC 4291 §2.5.3
    ipv6(0xfc00_0000_0000_0000, 0, 7, .local),  // private (RFC 4193)
    ipv6(0xfe80_0000_0000_0000, 0, 10, .local),  // one link (RFC 4291)
    ipv6(0x2001_0000_0000_0000, 0, 23, .reserved),  // protocol assignments, with Teredo
    ipv6(0x2001_0db8_0000_0000, 0, 32, .reserved),  // documentation
    ipv6(0x3fff_0000_0000_0000, 0, 20, .reserved),  // documentation
  ]

  private static func ipv4(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ length: Int, _ use: Use)
    -> Self
  {
    let prefix = IPAddress(ipv4: a << 24 | b << 16 | c << 8 | d).bits
    return Self(network: IPNetwork(prefix: prefix, length: 96 + length), use: use)
  }

  private static func ipv6(_ high: UInt64, _ low: UInt64, _ length: Int, _ use: Use) -> Self {
    Self(network: IPNetwork(prefix: UInt128(high) << 64 | UInt128(low), length: length), use: use)
  }
}

extension IPAddress {
  /// Whether the address is of this machine.
  public var isLoopback: Bool { SpecialPurposeRange.contain(self) { $0 == .loopback } }

  /// Whether clients of different owners can have the address: this machine, a private or a carrier's shared network, or
  /// one link.
  public var isPrivate: Bool { SpecialPurposeRange.contain(self) { $0 != .reserved } }

  /// Whether the address belongs to the public internet.
  public var isPublic: Bool {
    if isIPv4 { return !SpecialPurposeRange.contain(self) { _ in true } }
    // An address that embeds an IPv4 address leads to it: NAT64 (RFC 6052) and 6to4 (RFC 3056).
    if bits >> 32 == 0x0064_ff9b << 64 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: bits)).isPublic }
    if bits >> 112 == 0x2002 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: bits >> 80)).isPublic }
    // Only 2000::/3 is global unicast.
    return bits >> 125 == 0b001 && !SpecialPurposeRange.contain(self) { _ in true }
  }
}

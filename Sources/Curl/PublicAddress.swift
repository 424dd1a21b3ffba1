import Glibc

/// Which addresses belong to the public internet: all but those that the registries of special-purpose addresses
/// (RFC 6890; the IANA IPv4 and IPv6 Special-Purpose Address Registries) set apart, and multicast.
enum PublicAddress {
  /// - Parameter bytes: a `sockaddr_in` or `sockaddr_in6`; nothing else is public.
  static func isPublic(socketAddress bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count >= MemoryLayout<sa_family_t>.size else { return false }
    switch Int32(bytes.loadUnaligned(as: sa_family_t.self)) {
    case AF_INET:
      guard bytes.count >= MemoryLayout<sockaddr_in>.size else { return false }
      return isPublic(ipv4: UInt32(bigEndian: bytes.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
    case AF_INET6:
      guard bytes.count >= MemoryLayout<sockaddr_in6>.size else { return false }
      let address = bytes.loadUnaligned(as: sockaddr_in6.self).sin6_addr
      return withUnsafeBytes(of: address) { bytes in
        isPublic(
          ipv6: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
          UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
      }
    default: return false
    }
  }

  static func isPublic(ipv4 address: UInt32) -> Bool {
    !ipv4.contains { address >> (32 - $0.length) == $0.prefix >> (32 - $0.length) }
  }

  /// - Parameters: the first and the last 64 bits.
  static func isPublic(ipv6 high: UInt64, _ low: UInt64) -> Bool {
    // Addresses that stand for an IPv4 address lead to it: mapped (RFC 4291), NAT64 (RFC 6052), 6to4 (RFC 3056).
    if high == 0, low >> 32 == 0xffff { return isPublic(ipv4: UInt32(truncatingIfNeeded: low)) }
    if high == 0x0064_ff9b_0000_0000, low >> 32 == 0 {
      return isPublic(ipv4: UInt32(truncatingIfNeeded: low))
    }
    if high >> 48 == 0x2002 { return isPublic(ipv4: UInt32(truncatingIfNeeded: high >> 16)) }
    // Only 2000::/3 is global unicast.
    guard high >> 61 == 0b001 else { return false }
    return !ipv6.contains { high >> (64 - $0.length) == $0.prefix >> (64 - $0.length) }
  }

  private static let ipv4: [(prefix: UInt32, length: UInt32)] = [
    (0x0000_0000, 8),  // this network
    (0x0A00_0000, 8),  // 10.0.0.0, private
    (0x6440_0000, 10),  // 100.64.0.0, shared by carriers
    (0x7F00_0000, 8),  // 127.0.0.0, loopback
    (0xA9FE_0000, 16),  // 169.254.0.0, link local; where clouds keep credentials
    (0xAC10_0000, 12),  // 172.16.0.0, private
    (0xC000_0000, 24),  // 192.0.0.0, protocol assignments
    (0xC000_0200, 24),  // 192.0.2.0, documentation
    (0xC058_6300, 24),  // 192.88.99.0, 6to4 relays
    (0xC0A8_0000, 16),  // 192.168.0.0, private
    (0xC612_0000, 15),  // 198.18.0.0, benchmarks
    (0xC633_6400, 24),  // 198.51.100.0, documentation
    (0xCB00_7100, 24),  // 203.0.113.0, documentation
    (0xE000_0000, 3),  // 224.0.0.0 and above: multicast, reserved, broadcast
  ]

  private static let ipv6: [(prefix: UInt64, length: UInt64)] = [
    (0x2001_0000_0000_0000, 23),  // protocol assignments, Teredo among them
    (0x2001_0db8_0000_0000, 32),  // documentation
    (0x3fff_0000_0000_0000, 20),  // documentation
  ]
}

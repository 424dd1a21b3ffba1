import Foundation

/// An IPv4 or IPv6 address as a number.
public struct IPAddress: Sendable, Hashable {
  /// The IPv6 address. An IPv4 address is kept in its IPv4-mapped form (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2), so a
  /// client has the same address on an IPv4 and on a dual-stack socket.
  public let bits: UInt128

  private static let mapped: UInt128 = 0xffff << 32
  /// `INET6_ADDRSTRLEN` without its final zero.
  @usableFromInline static let longestText = 45

  /// An address from its number.
  public init(bits: UInt128) { self.bits = bits }

  /// An address from the number of an IPv4 address.
  init(ipv4: UInt32) { bits = Self.mapped | UInt128(ipv4) }

  /// Parses dotted decimal or an IPv6 address without a scope. Leading zeros, short forms and surrounding characters
  /// are refused.
  @inlinable
  public init?(_ text: some StringProtocol) {
    guard let address = Self(text.utf8) else { return nil }
    self = address
  }

  /// Parses the bytes of an address.
  @inlinable
  public init?(_ text: some Collection<UInt8>) {
    // Copied here, so that the parser is one function and not one for each type of collection.
    self.init(bytes: Array(text.prefix(Self.longestText + 1)))
  }

  @usableFromInline
  init?(bytes text: [UInt8]) {
    guard !text.isEmpty, text.count <= Self.longestText, text.allSatisfy(Self.isAddressByte) else {
      return nil
    }
    let isIPv6 = text.contains(UInt8(ascii: ":"))
    let parsed = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.longestText + 1) {
      buffer -> IPAddress? in
      for (index, byte) in text.enumerated() { buffer[index] = CChar(bitPattern: byte) }
      buffer[text.count] = 0
      if isIPv6 {
        var address = in6_addr()
        return inet_pton(AF_INET6, buffer.baseAddress, &address) == 1 ? IPAddress(address) : nil
      }
      var address = in_addr()
      return inet_pton(AF_INET, buffer.baseAddress, &address) == 1 ? IPAddress(address) : nil
    }
    guard let parsed else { return nil }
    self = parsed
  }

  /// The address in a `sockaddr_in` or `sockaddr_in6`; nil for another family or for too few bytes.
  public init?(socketAddress bytes: UnsafeRawBufferPointer) {
    // The family is behind a length byte on macOS, and at the start on Linux.
    guard let offset = MemoryLayout<sockaddr>.offset(of: \.sa_family),
      bytes.count >= offset + MemoryLayout<sa_family_t>.size
    else { return nil }
    switch Int32(bytes.loadUnaligned(fromByteOffset: offset, as: sa_family_t.self)) {
    case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size:
      self.init(bytes.loadUnaligned(as: sockaddr_in.self).sin_addr)
    case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
      self.init(bytes.loadUnaligned(as: sockaddr_in6.self).sin6_addr)
    default: return nil
    }
  }

  private init(_ address: in_addr) { self.init(ipv4: UInt32(bigEndian: address.s_addr)) }

  private init(_ address: in6_addr) {
    bits = withUnsafeBytes(of: address) { UInt128(bigEndian: $0.loadUnaligned(as: UInt128.self)) }
  }

  /// Whether the address is an IPv4 address.
  public var isIPv4: Bool { bits >> 32 == Self.mapped >> 32 }

  /// The range that one subscriber has: the IPv4 address, or the first 64 bits of the IPv6 address (RFC 6177).
  public var subscriberBits: UInt128 { isIPv4 ? bits : (bits >> 64) << 64 }

  /// The range that a site with many subscribers' networks has: the first 48 bits of the IPv6 address; nil for IPv4.
  public var networkBits: UInt128? { isIPv4 ? nil : (bits >> 80) << 80 }

  private static func isAddressByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"), UInt8(ascii: ":"), UInt8(ascii: "."):
      true
    default: false
    }
  }
}

extension IPAddress: CustomStringConvertible {
  /// `192.0.2.1` or `2001:db8::1` (RFC 5952).
  public var description: String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.longestText + 1) { buffer in
      let capacity = socklen_t(buffer.count)
      let text: UnsafePointer<CChar>?
      if isIPv4 {
        var address = UInt32(truncatingIfNeeded: bits).bigEndian
        text = inet_ntop(AF_INET, &address, buffer.baseAddress, capacity)
      } else {
        var address = bits.bigEndian
        text = inet_ntop(AF_INET6, &address, buffer.baseAddress, capacity)
      }
      return text.map { String(cString: $0) } ?? ""
    }
  }
}

/// A range of IP addresses in CIDR notation, such as `10.0.0.0/8` or `2001:db8::/32`.
public struct IPNetwork: Sendable, Hashable {
  private let prefix: UInt128
  private let mask: UInt128

  /// Parses an address, or an address and a prefix length (RFC 4632 §3.1, RFC 4291 §2.3).
  ///
  /// - Returns: nil for anything else, and if bits beyond the prefix are set: that is usually a typing error.
  public init?(_ text: some StringProtocol) {
    let parts = text.utf8.split(
      separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let address = IPAddress(parts[0]) else { return nil }
    let width = address.isIPv4 ? 32 : 128
    var length = width
    if parts.count == 2 {
      guard (1...3).contains(parts[1].count), let number = Self.number(parts[1]), number <= width else {
        return nil
      }
      length = number
    }
    self.init(prefix: address.bits, length: length + 128 - width)
    guard prefix == address.bits else { return nil }
  }

  /// The addresses that share the first `length` of 128 bits with `prefix`.
  init(prefix: UInt128, length: Int) {
    mask = length == 0 ? 0 : UInt128.max << UInt128(128 - length)
    self.prefix = prefix & mask
  }

  /// Whether every address is in the range: its prefix has no bits.
  public var isEveryone: Bool { mask == 0 || mask == Self.everyIPv4 }

  private static let everyIPv4 = UInt128.max << 32

  /// Whether the address is in the range.
  public func contains(_ address: IPAddress) -> Bool { address.bits & mask == prefix }

  private static func number(_ digits: some Collection<UInt8>) -> Int? {
    var number = 0
    for digit in digits {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
      number = number * 10 + Int(digit - UInt8(ascii: "0"))
    }
    return number
  }
}

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

  /// Whether clients of different owners can have the address: this machine, a private or a carrier's shared network,
  /// or one link.
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

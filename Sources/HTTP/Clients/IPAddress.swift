import Glibc
public import Sockets

/// An IPv4 or IPv6 address as a number.
public struct IPAddress: Sendable, Hashable {
  /// An IPv6 address as it is; an IPv4 address as the IPv6 address that stands for it (`::ffff:192.0.2.1`, RFC 4291
  /// §2.5.5.2), so that one client is one address whichever socket it came through.
  public let bits: UInt128

  private static let mapped: UInt128 = 0xffff << 32
  /// `INET6_ADDRSTRLEN` less its final zero.
  private static let longestText = 45

  /// An address from its number.
  public init(bits: UInt128) { self.bits = bits }

  /// Reads dotted decimal or an IPv6 address without a scope; nothing around it, no leading zeros, no short forms.
  public init?(_ text: some StringProtocol) {
    guard let address = Self(text.utf8) else { return nil }
    self = address
  }

  /// The address of one end of a connection; the unspecified one (`::`) where that has none.
  public init(_ end: SocketAddress) { self = IPAddress(end.host) ?? IPAddress(bits: 0) }

  /// Reads the bytes of an address.
  init?(_ text: some Collection<UInt8>) {
    guard !text.isEmpty, text.count <= Self.longestText, text.allSatisfy(Self.isAddressByte) else {
      return nil
    }
    let isIPv6 = text.contains(UInt8(ascii: ":"))
    let parsed = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.longestText + 1) {
      buffer -> UInt128? in
      for (index, byte) in text.enumerated() { buffer[index] = CChar(bitPattern: byte) }
      buffer[text.count] = 0
      if isIPv6 {
        var address = in6_addr()
        guard inet_pton(AF_INET6, buffer.baseAddress, &address) == 1 else { return nil }
        return withUnsafeBytes(of: address) { $0.reduce(0) { $0 << 8 | UInt128($1) } }
      }
      var address = in_addr()
      guard inet_pton(AF_INET, buffer.baseAddress, &address) == 1 else { return nil }
      return Self.mapped | UInt128(UInt32(bigEndian: address.s_addr))
    }
    guard let parsed else { return nil }
    bits = parsed
  }

  /// Whether it is an IPv4 address.
  public var isIPv4: Bool { bits >> 32 == Self.mapped >> 32 }

  /// What one party is given: the IPv4 address, or the first 64 bits of the IPv6 address. Whoever has one address of
  /// those has all of them (RFC 6177).
  public var subscriberBits: UInt128 { isIPv4 ? bits : (bits >> 64) << 64 }

  /// Whether it is this machine's own (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
  public var isLoopback: Bool { isIPv4 ? (bits >> 24) & 0xff == 127 : bits == 1 }

  /// Whether it belongs to no one party of the internet: this machine, a private or a carrier's shared network
  /// (RFC 1918, RFC 6598, RFC 4193), or the link (RFC 3927, RFC 4291).
  public var isPrivate: Bool {
    if isLoopback { return true }
    guard isIPv4 else { return bits >> 121 == 0xfc >> 1 || bits >> 118 == 0xfe80 >> 6 }
    let address = UInt32(truncatingIfNeeded: bits)
    return address >> 24 == 10 || address >> 20 == 0xac1 || address >> 16 == 0xc0a8
      || address >> 16 == 0xa9fe || address >> 22 == 0x6440 >> 6
  }

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
    if isIPv4 {
      return stride(from: 24, through: 0, by: -8).map { "\(UInt8(truncatingIfNeeded: bits >> UInt128($0)))" }
        .joined(separator: ".")
    }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.longestText + 1) { buffer in
      var bytes = bits.bigEndian
      let text = inet_ntop(AF_INET6, &bytes, buffer.baseAddress, socklen_t(buffer.count))
      return text.map { String(cString: $0) } ?? ""
    }
  }
}

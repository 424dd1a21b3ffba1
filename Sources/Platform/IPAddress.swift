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

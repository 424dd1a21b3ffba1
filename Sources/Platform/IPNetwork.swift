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

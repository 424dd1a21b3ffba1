/// A range of addresses, such as `10.0.0.0/8` or `2001:db8::/32`.
public struct IPNetwork: Sendable, Hashable {
  private let prefix: UInt128
  private let mask: UInt128

  /// Reads an address, or an address and the length of the prefix that counts (RFC 4632 §3.1, RFC 4291 §2.3).
  ///
  /// - Returns: nil for anything else, and where bits beyond the prefix are set: that is more often a slip of the pen
  ///   than a way of writing a network.
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
    let free = width - length
    mask = free == 128 ? 0 : UInt128.max << UInt128(free)
    prefix = address.bits & mask
    guard prefix == address.bits else { return nil }
  }

  /// Whether the address is one of these.
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

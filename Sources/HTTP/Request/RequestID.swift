/// The identifier of a request in logs and responses.
///
/// A generated one is two integers until its text is needed, which is rare.
enum RequestID: Sendable, Hashable {
  case client(String)
  case generated(UInt64, UInt64)

  /// A new identifier. It need not be secret, so any generator is acceptable.
  static func generate(using generator: inout some RandomNumberGenerator) -> RequestID {
    .generated(generator.next(), generator.next())
  }

  /// Whether a client's own `X-Request-ID` may be logged and echoed.
  static func isAcceptable(_ value: Span<UInt8>) -> Bool {
    guard (1...128).contains(value.count) else { return false }
    for index in value.indices {
      switch value[index] {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        continue
      default:
        return false
      }
    }
    return true
  }

  /// Appends the text of the identifier.
  func write(to output: inout [UInt8]) {
    switch self {
    case .client(let text):
      output.append(contentsOf: text.utf8)
    case .generated(let high, let low):
      Self.writeHex(high, to: &output)
      Self.writeHex(low, to: &output)
    }
  }

  private static func writeHex(_ value: UInt64, to output: inout [UInt8]) {
    let digits = (
      hexDigits(of: UInt32(truncatingIfNeeded: value >> 32)).bigEndian,
      hexDigits(of: UInt32(truncatingIfNeeded: value)).bigEndian
    )
    withUnsafeBytes(of: digits) { output.append(contentsOf: $0) }
  }

  /// Eight hexadecimal digits, computed together.
  static func hexDigits(of value: UInt32) -> UInt64 {
    // Each group of four bits gets a byte of its own.
    var digits = UInt64(value)
    digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF
    digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF
    digits = (digits | digits << 4) & 0x0F0F_0F0F_0F0F_0F0F
    // A byte of 10 or more reaches 16 when 6 is added. The distance from "9" + 1 to "a" is 39.
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return digits + 0x3030_3030_3030_3030 + letters * 39
  }
}

extension RequestID: CustomStringConvertible {
  var description: String {
    if case .client(let text) = self { return text }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(32)
    write(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }
}

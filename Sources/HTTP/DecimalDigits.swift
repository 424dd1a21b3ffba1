/// Decimal numbers in HTTP messages.
enum DecimalDigits {
  /// The number, or nil unless `bytes` are 1 to 19 digits that fit into an `Int`. `Int(String)` would accept a sign, which
  /// allows request smuggling.
  static func parse(_ bytes: Span<UInt8>) -> Int? {
    guard (1...19).contains(bytes.count) else { return nil }
    var value = 0
    for index in bytes.indices {
      guard ASCII.isDigit(bytes[index]) else { return nil }
      let (tens, tooManyTens) = value.multipliedReportingOverflow(by: 10)
      let (sum, tooMuch) = tens.addingReportingOverflow(Int(bytes[index] - UInt8(ascii: "0")))
      guard !tooManyTens, !tooMuch else { return nil }
      value = sum
    }
    return value
  }

  /// Appends `value`, which must not be negative, without making a string.
  static func write(_ value: Int, to output: inout [UInt8]) {
    guard value >= 10 else {
      output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
      return
    }
    write(value / 10, to: &output)
    output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10))
  }
}

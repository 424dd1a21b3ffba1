/// Decimal numbers on the wire.
enum DecimalDigits {
  /// The number that `bytes` spells, or nil if there is no digit, anything but digits, more than 19 of
  /// them, or too much for an `Int`. `Int(String)` would take a sign, which is one of the ways to smuggle a request.
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

  /// Appends `value`, which is not negative, without making a string of it.
  static func write(_ value: Int, to output: inout [UInt8]) {
    guard value >= 10 else {
      output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
      return
    }
    write(value / 10, to: &output)
    output.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10))
  }
}

extension JSONReader {
  /// A whole number that fits into 64 bits. `1.0` and `1e3` are whole numbers too.
  public mutating func integer() throws(JSONFailure) -> Int64 {
    guard let first = peek(), first == UInt8(ascii: "-") || first.isDigit else { throw mismatch(.integer) }
    let start = position
    let isPlain = try number()
    guard let value = isPlain ? plainInteger(start) : wholeNumber(start..<position) else {
      throw JSONFailure(.mismatch(.integer), at: start)
    }
    return value
  }

  /// Skips a number.
  ///
  /// - Returns: whether it has neither fraction nor exponent.
  mutating func number() throws(JSONFailure) -> Bool {
    if isNext(UInt8(ascii: "-")) { position += 1 }
    if isNext(UInt8(ascii: "0")) { position += 1 } else { try digits() }
    var isPlain = true
    if isNext(UInt8(ascii: ".")) {
      position += 1
      isPlain = false
      try digits()
    }
    if isNext(UInt8(ascii: "e")) || isNext(UInt8(ascii: "E")) {
      position += 1
      isPlain = false
      if isNext(UInt8(ascii: "+")) || isNext(UInt8(ascii: "-")) { position += 1 }
      try digits()
    }
    return isPlain
  }

  private func isNext(_ byte: UInt8) -> Bool { position < bytes.count && bytes[position] == byte }

  private mutating func digits() throws(JSONFailure) {
    let start = position
    while position < bytes.count, bytes[position].isDigit { position += 1 }
    guard position > start else { throw malformed }
  }

  /// The number from `start` to the reader's position, without fraction or exponent; nil if it does not fit.
  private func plainInteger(_ start: Int) -> Int64? {
    let isNegative = bytes[start] == UInt8(ascii: "-")
    var value: Int64 = 0
    for index in (isNegative ? start + 1 : start)..<position {
      let digit = Int64(bytes[index] - UInt8(ascii: "0"))
      let (tens, isTooMuch) = value.multipliedReportingOverflow(by: 10)
      // Negative, because Int64.min has no positive counterpart.
      let (sum, isFar) = tens.subtractingReportingOverflow(digit)
      guard !isTooMuch, !isFar else { return nil }
      value = sum
    }
    guard !isNegative else { return value }
    return value == .min ? nil : -value
  }

  /// The number with a fraction or an exponent in this range, if it is whole and fits: its digits without trailing zeros,
  /// times a power of ten.
  private func wholeNumber(_ place: Range<Int>) -> Int64? {
    let isNegative = bytes[place.lowerBound] == UInt8(ascii: "-")
    var digits: [UInt8] = []
    var shift = 0
    var isFraction = false
    var index = place.lowerBound + (isNegative ? 1 : 0)
    while index < place.upperBound, bytes[index] | 0x20 != UInt8(ascii: "e") {
      if bytes[index] == UInt8(ascii: ".") {
        isFraction = true
      } else {
        digits.append(bytes[index] - UInt8(ascii: "0"))
        if isFraction { shift -= 1 }
      }
      index += 1
    }
    while digits.last == 0 {
      digits.removeLast()
      shift += 1
    }
    guard !digits.isEmpty else { return 0 }
    if index < place.upperBound { shift += exponent((index + 1)..<place.upperBound) }
    guard shift >= 0, shift < 19 else { return nil }
    var value: Int64 = 0
    for digit in digits + [UInt8](repeating: 0, count: shift) {
      let (tens, isTooMuch) = value.multipliedReportingOverflow(by: 10)
      let (sum, isFar) = tens.subtractingReportingOverflow(Int64(digit))
      guard !isTooMuch, !isFar else { return nil }
      value = sum
    }
    guard !isNegative else { return value }
    return value == .min ? nil : -value
  }

  /// The exponent in this range, clamped to a number that makes the result overflow or a fraction.
  private func exponent(_ place: Range<Int>) -> Int {
    var value = 0
    for byte in bytes[place] where byte.isDigit && value < 1 << 40 {
      value = value * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return bytes[place.lowerBound] == UInt8(ascii: "-") ? -value : value
  }
}

extension UInt8 {
  fileprivate var isDigit: Bool { self &- UInt8(ascii: "0") < 10 }
}

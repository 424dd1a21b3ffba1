/// Reads JSON (RFC 8259) in one pass over its bytes.
///
/// The caller reads one value after another, in order, and says which kind it expects. Skipped values are validated
/// too.
///
/// It is stricter than Foundation's decoder, which accepts UTF-16, UTF-32 and trailing commas, and does not validate
/// skipped values. As there, the first of several members with one name counts, and `1.0` and `1e3` are whole numbers.
public struct JSONReader: Sendable {
  let bytes: [UInt8]
  /// The end of the bytes that were read.
  public internal(set) var position = 0
  var depth = 0
  let maximumDepth: Int

  /// - Throws: ``JSONFailure/Reason/notUTF8``.
  init(_ bytes: [UInt8], maximumDepth: Int) throws(JSONFailure) {
    // A byte order mark begins with this byte, and JSON never does.
    guard bytes.first != 0xEF, (try? UTF8Span(validating: bytes.span)) != nil else {
      throw JSONFailure(.notUTF8, at: 0)
    }
    self.bytes = bytes
    self.maximumDepth = maximumDepth
  }

  /// Reads one value from all of the bytes.
  ///
  /// - Parameter maximumDepth: the nesting limit of arrays and objects, because reading is recursive.
  /// - Throws: a syntax error anywhere in the bytes; otherwise the first invalid value, with its path.
  public static func read<Value: JSONReadable>(
    _: Value.Type = Value.self, from bytes: [UInt8], maximumDepth: Int
  ) throws(JSONFailure) -> Value {
    var json = try JSONReader(bytes, maximumDepth: maximumDepth)
    do throws(JSONFailure) {
      let value = try Value(reading: &json)
      try json.finish()
      return value
    } catch {
      throw json.located(error)
    }
  }

  /// Checks that the bytes are JSON of any shape.
  public static func check(_ bytes: [UInt8], maximumDepth: Int) throws(JSONFailure) {
    var json = try JSONReader(bytes, maximumDepth: maximumDepth)
    try json.skip()
    try json.finish()
  }

  /// Skips `null`.
  ///
  /// - Returns: whether the next value was `null`.
  public mutating func takeNull() throws(JSONFailure) -> Bool {
    guard peek() == UInt8(ascii: "n") else { return false }
    try word("null")
    return true
  }

  /// `true` or `false`.
  public mutating func boolean() throws(JSONFailure) -> Bool {
    switch peek() {
    case UInt8(ascii: "t"):
      try word("true")
      return true
    case UInt8(ascii: "f"):
      try word("false")
      return false
    default: throw mismatch(.boolean)
    }
  }

  /// Validates and skips a value.
  public mutating func skip() throws(JSONFailure) {
    switch peek() {
    case UInt8(ascii: "{"):
      var members = try beginObject()
      while try hasNextMember(&members) {
        try skipString()
        try colon()
        try skip()
      }
    case UInt8(ascii: "["):
      var elements = try beginArray()
      while try hasNextElement(&elements) { try skip() }
    case UInt8(ascii: "\""): try skipString()
    case UInt8(ascii: "t"): try word("true")
    case UInt8(ascii: "f"): try word("false")
    case UInt8(ascii: "n"): try word("null")
    default: _ = try number()
    }
  }

  /// Checks that only white space follows.
  mutating func finish() throws(JSONFailure) {
    guard peek() == nil else { throw malformed }
  }

  /// The next byte that is not white space; nil at the end.
  mutating func peek() -> UInt8? {
    while position < bytes.count {
      let byte = bytes[position]
      guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
      position += 1
    }
    return nil
  }

  mutating func take(_ byte: UInt8) -> Bool {
    guard peek() == byte else { return false }
    position += 1
    return true
  }

  mutating func colon() throws(JSONFailure) {
    guard take(UInt8(ascii: ":")) else { throw malformed }
  }

  var malformed: JSONFailure { JSONFailure(.malformed, at: position) }

  /// The failure for a next value of another kind than the expected one.
  mutating func mismatch(_ form: JSONForm) -> JSONFailure {
    guard let next = peek() else { return malformed }
    return JSONFailure(next == UInt8(ascii: "n") ? .null : .mismatch(form), at: position)
  }

  private mutating func word(_ word: StaticString) throws(JSONFailure) {
    let end = position + word.utf8CodeUnitCount
    let isThere = word.withUTF8Buffer { end <= bytes.count && $0.elementsEqual(bytes[position..<end]) }
    guard isThere else { throw malformed }
    position = end
  }
}

/// The position of a reader in an object or array.
public struct JSONCursor: Sendable {
  /// The start of the container.
  let start: Int
  private(set) var isFirst = true

  init(start: Int) { self.start = start }

  mutating func advance() { isFirst = false }
}

extension JSONReader {
  /// Begins an array. Call ``hasNextElement(_:)`` until it returns false.
  public mutating func beginArray() throws(JSONFailure) -> JSONCursor {
    try begin(UInt8(ascii: "["), .array)
  }

  /// Whether there is another element, which the caller then must read. If not, the reader is behind the array.
  public mutating func hasNextElement(_ elements: inout JSONCursor) throws(JSONFailure) -> Bool {
    try hasNext(&elements, end: UInt8(ascii: "]"))
  }

  mutating func beginObject() throws(JSONFailure) -> JSONCursor {
    try begin(UInt8(ascii: "{"), .object)
  }

  mutating func hasNextMember(_ members: inout JSONCursor) throws(JSONFailure) -> Bool {
    try hasNext(&members, end: UInt8(ascii: "}"))
  }

  private mutating func begin(_ bracket: UInt8, _ form: JSONForm) throws(JSONFailure) -> JSONCursor {
    guard peek() == bracket else { throw mismatch(form) }
    depth += 1
    guard depth <= maximumDepth else { throw JSONFailure(.tooDeep, at: position) }
    position += 1
    return JSONCursor(start: position - 1)
  }

  private mutating func hasNext(_ cursor: inout JSONCursor, end: UInt8) throws(JSONFailure) -> Bool {
    if take(end) {
      depth -= 1
      return false
    }
    guard cursor.isFirst || take(UInt8(ascii: ",")) else { throw malformed }
    cursor.advance()
    return true
  }
}

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

  /// The number with a fraction or an exponent in this range, if it is whole and fits: its digits without trailing
  /// zeros, times a power of ten.
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

/// A type that a ``JSONReader`` can read.
public protocol JSONReadable {
  /// Reads exactly one value.
  init(reading json: inout JSONReader) throws(JSONFailure)
}

extension String: JSONReadable {
  /// A string.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.string() }
}

extension Bool: JSONReadable {
  /// `true` or `false`.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.boolean() }
}

extension Int64: JSONReadable {
  /// A whole number.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) { self = try json.integer() }
}

extension Int32: JSONReadable {
  /// A whole number of 32 bits.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    let start = json.position
    guard let value = Int32(exactly: try json.integer()) else {
      throw JSONFailure(.mismatch(.integer), at: start)
    }
    self = value
  }
}

extension Array: JSONReadable where Element: JSONReadable {
  /// An array.
  @inlinable
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self = []
    var elements = try json.beginArray()
    while try json.hasNextElement(&elements) { append(try Element(reading: &json)) }
  }
}

extension JSONReader {
  /// A value.
  @inlinable
  public mutating func read<Value: JSONReadable>() throws(JSONFailure) -> Value {
    try Value(reading: &self)
  }

  /// A value, or nil for `null`.
  @inlinable
  public mutating func readOrNull<Value: JSONReadable>() throws(JSONFailure) -> Value? {
    try takeNull() ? nil : Value(reading: &self)
  }
}

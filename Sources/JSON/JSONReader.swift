/// Reads JSON (RFC 8259) in one pass over its bytes.
///
/// The caller reads one value after another, in order, and says which kind it expects. Skipped values are validated too.
///
/// It is stricter than Foundation's decoder, which accepts UTF-16, UTF-32 and trailing commas, and does not validate skipped
/// values. As there, the first of several members with one name counts, and `1.0` and `1e3` are whole numbers.
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

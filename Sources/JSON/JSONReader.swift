/// Reads JSON (RFC 8259) in one pass over its bytes.
///
/// It hands out one value after another, in the order in which they stand; whoever asks says what kind it must
/// be. What nobody asks for is checked all the same: nothing is read of what is not JSON to the letter.
///
/// Stricter than Foundation's decoder, which takes UTF-16 and UTF-32, a comma before an end, and does not look at
/// strings and numbers that nobody asks for. Like it, of two members of one name the first counts, and `1.0` and
/// `1e3` are whole numbers.
public struct JSONReader: Sendable {
  let bytes: [UInt8]
  /// Up to where it was read.
  public internal(set) var position = 0
  var depth = 0
  let maximumDepth: Int

  /// - Throws: ``JSONFailure/Reason/notUTF8``.
  init(_ bytes: [UInt8], maximumDepth: Int) throws(JSONFailure) {
    // JSON never begins with this byte, UTF-8 with a byte order mark does.
    guard bytes.first != 0xEF, (try? UTF8Span(validating: bytes.span)) != nil else {
      throw JSONFailure(.notUTF8, at: 0)
    }
    self.bytes = bytes
    self.maximumDepth = maximumDepth
  }

  /// A value that stands alone.
  ///
  /// - Parameter maximumDepth: how deep arrays and objects may nest. Readers recurse; a stranger should not choose
  ///   how far.
  /// - Throws: that the bytes are not JSON, wherever; else, with its path, the first value that is wrong.
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

  /// Checks that the bytes are JSON, whatever it says.
  public static func check(_ bytes: [UInt8], maximumDepth: Int) throws(JSONFailure) {
    var json = try JSONReader(bytes, maximumDepth: maximumDepth)
    try json.skip()
    try json.finish()
  }

  /// Takes `null`, if that is what comes next.
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

  /// Checks a value that nobody wants to know.
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

  /// Nothing but white space may follow.
  mutating func finish() throws(JSONFailure) {
    guard peek() == nil else { throw malformed }
  }

  /// What comes next, behind any white space; nil at the end.
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

  /// That the next value is not of the kind that was asked for.
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

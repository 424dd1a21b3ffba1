/// The grammar of RFC 8259, to the letter.
///
/// Foundation's decoder lets trailing commas pass, and does not look at what nobody asks for. What is stored
/// or forwarded should be JSON to everybody.
struct JSONGrammar {
  enum Violation: Error {
    case malformed(at: Int)
    case tooDeep
  }

  private let maximumDepth: Int
  private var position = 0
  private var depth = 0

  init(maximumDepth: Int) { self.maximumDepth = maximumDepth }

  /// Checks one value with nothing but white space around it.
  mutating func check(_ bytes: Span<UInt8>) throws(Violation) {
    try value(bytes)
    skipSpace(bytes)
    guard position == bytes.count else { throw .malformed(at: position) }
  }

  private mutating func value(_ bytes: Span<UInt8>) throws(Violation) {
    skipSpace(bytes)
    switch peek(bytes) {
    case UInt8(ascii: "{"): try container(bytes, end: UInt8(ascii: "}"), hasNames: true)
    case UInt8(ascii: "["): try container(bytes, end: UInt8(ascii: "]"), hasNames: false)
    case UInt8(ascii: "\""): try string(bytes)
    case UInt8(ascii: "t"): try word("true", bytes)
    case UInt8(ascii: "f"): try word("false", bytes)
    case UInt8(ascii: "n"): try word("null", bytes)
    default: try number(bytes)
    }
  }

  private mutating func container(
    _ bytes: Span<UInt8>, end: UInt8, hasNames: Bool
  ) throws(Violation) {
    depth += 1
    guard depth <= maximumDepth else { throw .tooDeep }
    defer { depth -= 1 }
    position += 1
    skipSpace(bytes)
    if take(end, bytes) { return }
    repeat {
      if hasNames {
        skipSpace(bytes)
        try string(bytes)
        skipSpace(bytes)
        guard take(ASCII.colon, bytes) else { throw .malformed(at: position) }
      }
      try value(bytes)
      skipSpace(bytes)
    } while take(UInt8(ascii: ","), bytes)
    guard take(end, bytes) else { throw .malformed(at: position) }
  }

  private mutating func string(_ bytes: Span<UInt8>) throws(Violation) {
    guard take(UInt8(ascii: "\""), bytes) else { throw .malformed(at: position) }
    while true {
      guard let quote = bytes.firstIndex(of: UInt8(ascii: "\""), from: position) else {
        throw .malformed(at: bytes.count)
      }
      let text = bytes.extracting(position..<quote)
      // A signed payload is many kilobytes in one string: searches and this fold over it run many bytes at
      // a time.
      guard text.smallest >= 0x20 else { throw .malformed(at: position) }
      guard let escape = text.firstIndex(of: UInt8(ascii: "\\"), from: 0) else {
        position = quote + 1
        return
      }
      position += escape + 1
      try escaped(bytes)
    }
  }

  /// What follows a backslash.
  private mutating func escaped(_ bytes: Span<UInt8>) throws(Violation) {
    switch peek(bytes) {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      position += 1
    case UInt8(ascii: "u"):
      position += 1
      for _ in 0..<4 {
        guard let digit = peek(bytes), ASCII.hexValue(digit) != nil else { throw .malformed(at: position) }
        position += 1
      }
    default:
      throw .malformed(at: position)
    }
  }

  private mutating func number(_ bytes: Span<UInt8>) throws(Violation) {
    _ = take(UInt8(ascii: "-"), bytes)
    if !take(UInt8(ascii: "0"), bytes) { try digits(bytes) }
    if take(UInt8(ascii: "."), bytes) { try digits(bytes) }
    if take(UInt8(ascii: "e"), bytes) || take(UInt8(ascii: "E"), bytes) {
      if !take(UInt8(ascii: "+"), bytes) { _ = take(UInt8(ascii: "-"), bytes) }
      try digits(bytes)
    }
  }

  private mutating func digits(_ bytes: Span<UInt8>) throws(Violation) {
    let start = position
    while let byte = peek(bytes), ASCII.isDigit(byte) { position += 1 }
    guard position > start else { throw .malformed(at: position) }
  }

  private mutating func word(_ word: StaticString, _ bytes: Span<UInt8>) throws(Violation) {
    let end = position + word.utf8CodeUnitCount
    guard end <= bytes.count, bytes.extracting(position..<end).isEqual(to: word) else {
      throw .malformed(at: position)
    }
    position = end
  }

  private mutating func skipSpace(_ bytes: Span<UInt8>) {
    while let byte = peek(bytes), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
      position += 1
    }
  }

  private func peek(_ bytes: Span<UInt8>) -> UInt8? {
    position < bytes.count ? bytes[position] : nil
  }

  private mutating func take(_ byte: UInt8, _ bytes: Span<UInt8>) -> Bool {
    guard peek(bytes) == byte else { return false }
    position += 1
    return true
  }
}

extension Span<UInt8> {
  /// The smallest byte, or 255 if there is none.
  fileprivate var smallest: UInt8 {
    withUnsafeBufferPointer { $0.reduce(255) { $1 < $0 ? $1 : $0 } }
  }
}

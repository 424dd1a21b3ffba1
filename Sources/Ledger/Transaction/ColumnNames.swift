import FoundationEssentials
import JSON
import Postgres

/// The claims of a payload that have columns.
struct ColumnNames: ExpressibleByArrayLiteral, Sendable {
  private let names: JSONNameTable

  init(arrayLiteral names: String...) {
    self.names = JSONNameTable(names)
  }

  /// The members of a JSON object that have no column, as a JSON object; `nil` if there are none.
  func remainder(of payload: [UInt8]) -> JSONText? {
    var rest: [UInt8] = []
    for member in JSONMembers(of: payload) where !names.contains(payload[member.name]) {
      // PostgreSQL may refuse such text or read it in another way, so it is decoded and encoded again.
      guard Self.isPlain(payload[member.name]), Self.isPlain(payload[member.value]) else {
        return rewrittenRemainder(of: payload)
      }
      rest.append(rest.isEmpty ? UInt8(ascii: "{") : UInt8(ascii: ","))
      // With the quotation marks around the name.
      rest += payload[member.name.lowerBound - 1...member.name.upperBound]
      rest.append(UInt8(ascii: ":"))
      rest += payload[member.value]
    }
    guard !rest.isEmpty else { return nil }
    rest.append(UInt8(ascii: "}"))
    return JSONText(String(decoding: rest, as: UTF8.self))
  }

  /// Whether it is a string without escapes, an integer, or a literal.
  private static func isPlain(_ text: ArraySlice<UInt8>) -> Bool {
    guard let first = text.first else { return true }
    return switch first {
    case UInt8(ascii: "{"), UInt8(ascii: "["): false
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      text.count <= 18 && text.dropFirst().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    default: !text.contains(UInt8(ascii: "\\"))
    }
  }

  private func rewrittenRemainder(of payload: [UInt8]) -> JSONText? {
    guard let claims = try? JSONDecoder().decode([String: JSONValue].self, from: Data(payload)) else {
      return nil
    }
    let rest = claims.filter { !names.contains(Array($0.key.utf8)[...]) }
    guard !rest.isEmpty, let encoded = try? JSONEncoder().encode(rest) else { return nil }
    // PostgreSQL's jsonb has no U+0000. A payload with one loses its other claims and nothing else.
    let text = String(decoding: encoded, as: UTF8.self)
    let holdsZero = text.replacing(#"\\"#, with: "").contains(#"\u0000"#)
    return holdsZero ? nil : JSONText(text)
  }
}

/// The members of a JSON object as ranges of its text, without decoding or copying them.
///
/// The text must be a valid JSON object; an invalid one ends the sequence early.
struct JSONMembers: Sequence, IteratorProtocol {
  /// A name and its value, as ranges of the text.
  struct Member {
    /// Between the quotation marks.
    var name: Range<Int>
    var value: Range<Int>
  }

  private let text: [UInt8]
  private var position = 0

  init(of text: [UInt8]) {
    self.text = text
    skip { $0 != UInt8(ascii: "{") }
    position += 1
  }

  mutating func next() -> Member? {
    skip { $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "}") }
    guard position < text.count, text[position] == UInt8(ascii: "\"") else { return nil }
    let name = position + 1
    skipString()
    let nameEnd = position - 1
    skip { $0 != UInt8(ascii: ":") }
    position += 1
    skip { $0 <= UInt8(ascii: " ") }
    let value = position
    skipValue()
    guard position <= text.count, value < position, name <= nameEnd else { return nil }
    return Member(name: name..<nameEnd, value: value..<position)
  }

  private mutating func skip(while isSkipped: (UInt8) -> Bool) {
    while position < text.count, isSkipped(text[position]) { position += 1 }
  }

  /// From the opening quotation mark to behind the closing one.
  private mutating func skipString() {
    position += 1
    while position < text.count, text[position] != UInt8(ascii: "\"") {
      position += text[position] == UInt8(ascii: "\\") ? 2 : 1
    }
    position += 1
  }

  private mutating func skipValue() {
    var depth = 0
    while position < text.count {
      switch text[position] {
      case UInt8(ascii: "\""):
        skipString()
        if depth == 0 { return }
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        depth += 1
        position += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        // The end of the object around a bare value.
        if depth == 0 { return }
        depth -= 1
        position += 1
        if depth == 0 { return }
      case UInt8(ascii: ","), ...UInt8(ascii: " "):
        if depth == 0 { return }
        position += 1
      default: position += 1
      }
    }
  }
}

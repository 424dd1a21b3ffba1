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

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

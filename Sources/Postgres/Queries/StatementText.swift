/// The text of a statement, with numbered placeholders for its values.
struct StatementText: Sendable {
  private enum Piece: Sendable {
    case text(String)
    case value
    case element
  }

  /// The text for the server, with `$1`, `$2`, … for its values. It identifies the statement in the cache of prepared ones.
  private(set) var text = ""
  private var values = 0
  /// The parts of the text, from which a statement that contains this one makes a text with its own numbers.
  private var pieces: [Piece] = []

  mutating func append(_ fragment: String) {
    if fragment.isEmpty { return }
    pieces.append(.text(fragment))
    text += fragment
  }

  /// Appends a placeholder for the next value.
  mutating func appendValue() {
    pieces.append(.value)
    values += 1
    text += "$\(values)"
  }

  /// Appends a placeholder for the element at `given.place` of the next value, which is an array.
  mutating func appendElement() {
    pieces.append(.element)
    values += 1
    text += "$\(values)[given.place]"
  }

  mutating func append(_ other: StatementText) {
    for piece in other.pieces {
      switch piece {
      case .text(let fragment): append(fragment)
      case .value: appendValue()
      case .element: appendElement()
      }
    }
  }
}

extension StatementText: Hashable {
  static func == (a: Self, b: Self) -> Bool { a.text == b.text }

  func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

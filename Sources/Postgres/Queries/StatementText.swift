/// The text of a statement in the pieces that the code has it in.
///
/// A connection looks up each statement that it sends. Put together and hashed as text, that would cost more than
/// to send it: a few kilobytes for a statement of forty columns, each time the same. The literals of the code stay where
/// they are for the life of the process, so a statement is known by where its literals stand, and the text is
/// made only to prepare it.
struct StatementText: Sendable {
  private enum Piece: Sendable {
    /// Stands in the program.
    case literal(StaticString)
    /// The next `$n`.
    case value
    /// The next `$n`, which is an array: its element at `given.place`.
    case element
    /// Made by code; its place in `fragments`.
    case fragment(Int)
  }

  private var pieces: [Piece] = []
  private var fragments: [String] = []
  /// Sums up what makes two texts equal.
  private var fingerprint: UInt64 = 0

  init(reservingValues count: Int = 0) {
    if count > 0 { pieces.reserveCapacity(2 * count + 1) }
  }

  mutating func append(_ literal: StaticString) {
    // A literal of a single character may have no place of its own.
    guard literal.hasPointerRepresentation else { return append(fragment: "\(literal)") }
    if literal.utf8CodeUnitCount == 0 { return }
    pieces.append(.literal(literal))
    mix(UInt64(UInt(bitPattern: literal.utf8Start)))
  }

  mutating func append(fragment: String) {
    pieces.append(.fragment(fragments.count))
    fragments.append(fragment)
    mix(UInt64(truncatingIfNeeded: fragment.hashValue))
  }

  mutating func appendValue() {
    pieces.append(.value)
    mix(1)
  }

  /// Leaves the place of an element of an array, the one at `given.place`.
  mutating func appendElement() {
    pieces.append(.element)
    mix(2)
  }

  mutating func append(_ other: StatementText) {
    for piece in other.pieces {
      switch piece {
      case .literal(let literal): append(literal)
      case .value: appendValue()
      case .element: appendElement()
      case .fragment(let index): append(fragment: other.fragments[index])
      }
    }
  }

  private mutating func mix(_ word: UInt64) {
    // Multiplication carries each bit upwards only; the shift brings them down again.
    fingerprint = (fingerprint ^ word) &* 0x9E37_79B9_7F4A_7C15
    fingerprint ^= fingerprint >> 32
  }

  /// What is sent to the server, with `$1`, `$2`, … where values stand.
  var text: String {
    var text = ""
    var values = 0
    for piece in pieces {
      switch piece {
      case .literal(let literal): literal.withUTF8Buffer { text += String(decoding: $0, as: UTF8.self) }
      case .fragment(let index): text += fragments[index]
      case .value:
        values += 1
        text += "$\(values)"
      case .element:
        values += 1
        text += "$\(values)[given.place]"
      }
    }
    return text
  }
}

extension StatementText: Hashable {
  static func == (a: Self, b: Self) -> Bool {
    a.fingerprint == b.fingerprint && a.pieces.count == b.pieces.count && a.fragments == b.fragments
      && zip(a.pieces, b.pieces).allSatisfy { isSame($0, $1) }
  }

  private static func isSame(_ a: Piece, _ b: Piece) -> Bool {
    switch (a, b) {
    case (.literal(let a), .literal(let b)):
      a.utf8Start == b.utf8Start && a.utf8CodeUnitCount == b.utf8CodeUnitCount
    case (.value, .value), (.element, .element): true
    case (.fragment(let a), .fragment(let b)): a == b
    default: false
    }
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(fingerprint)
  }
}

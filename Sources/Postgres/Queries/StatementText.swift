/// The text of a statement as a list of pieces, with a fast hash for the cache of prepared statements.
///
/// To join and hash the text of each query, often several kilobytes, would cost more than sending it. The literals of the
/// program have constant addresses, so a statement is identified by these addresses, and its text is made only to prepare
/// it.
struct StatementText: Sendable {
  private enum Piece: Sendable {
    /// A literal of the program.
    case literal(StaticString)
    /// The next `$n`.
    case value
    /// The element at `given.place` of the next `$n`, which is an array.
    case element
    /// A fragment that the program made: its index in `fragments`.
    case fragment(Int)
  }

  private var pieces: [Piece] = []
  private var fragments: [String] = []
  /// A hash of all pieces.
  private var fingerprint: UInt64 = 0

  init(reservingValues count: Int = 0) {
    if count > 0 { pieces.reserveCapacity(2 * count + 1) }
  }

  mutating func append(_ literal: StaticString) {
    // A literal of a single character may have no address.
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

  /// Appends a placeholder for the element at `given.place` of an array.
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
    // Multiplication mixes bits into higher ones only; the shift mixes them into lower ones.
    fingerprint = (fingerprint ^ word) &* 0x9E37_79B9_7F4A_7C15
    fingerprint ^= fingerprint >> 32
  }

  /// The text for the server, with `$1`, `$2`, … for its values.
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

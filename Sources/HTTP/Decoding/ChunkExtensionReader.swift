/// Validates the extensions of a chunk, byte by byte, and drops them (RFC 9112 §7.1.1).
///
///     chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
///
/// A name is a token, a value is a token or a quoted string. White space without a following `;` or `=` is refused, and so
/// is a CR or LF inside a quoted string: a less strict parser finds the end of the line elsewhere.
struct ChunkExtensionReader {
  private var state: State

  private enum State {
    /// White space after the size or a value: a `;` must follow.
    case beforeSemicolon
    case beforeName
    case name
    /// White space after a name: a `=` or a `;` must follow.
    case afterName
    case beforeValue
    case token
    case quoted
    /// After the backslash of a quoted pair.
    case escaped
    case afterQuoted
  }

  /// - Parameter first: the byte that follows the size.
  /// - Returns: nil if no extension begins with the byte.
  init?(first: UInt8) {
    switch first {
    case UInt8(ascii: ";"): state = .beforeName
    case ASCII.space, ASCII.tab: state = .beforeSemicolon
    default: return nil
    }
  }

  /// Whether the line may end here.
  var isComplete: Bool {
    switch state {
    case .name, .token, .afterQuoted: true
    default: false
    }
  }

  /// Checks one byte that does not end the line.
  ///
  /// - Throws: 400 if the grammar does not allow it.
  mutating func take(_ byte: UInt8) throws(Problem) {
    guard let next = next(after: byte) else {
      throw .invalidRequest("A chunk extension must be a name, or a name and a value, after a semicolon.")
    }
    state = next
  }

  private func next(after byte: UInt8) -> State? {
    let isBlank = byte == ASCII.space || byte == ASCII.tab
    let isToken = ASCII.isTokenCharacter(byte)
    let isSemicolon = byte == UInt8(ascii: ";")
    switch state {
    case .beforeSemicolon: return isSemicolon ? .beforeName : isBlank ? .beforeSemicolon : nil
    case .beforeName: return isToken ? .name : isBlank ? .beforeName : nil
    case .name, .afterName:
      if isSemicolon { return .beforeName }
      if byte == UInt8(ascii: "=") { return .beforeValue }
      if isBlank { return .afterName }
      return isToken && isComplete ? .name : nil
    case .beforeValue:
      if byte == UInt8(ascii: "\"") { return .quoted }
      return isToken ? .token : isBlank ? .beforeValue : nil
    case .token, .afterQuoted:
      if isSemicolon { return .beforeName }
      if isBlank { return .beforeSemicolon }
      return isToken && isInToken ? .token : nil
    case .quoted:
      if byte == UInt8(ascii: "\"") { return .afterQuoted }
      if byte == UInt8(ascii: "\\") { return .escaped }
      return ASCII.isFieldValueCharacter(byte) ? .quoted : nil
    case .escaped: return ASCII.isFieldValueCharacter(byte) ? .quoted : nil
    }
  }

  private var isInToken: Bool { if case .token = state { true } else { false } }
}

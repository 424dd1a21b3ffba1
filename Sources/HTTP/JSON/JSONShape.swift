/// What is checked of JSON before a decoder sees it.
enum JSONShape {
  /// - Throws: 400 `invalid_json` for what is empty, not UTF-8 (a decoder would also take UTF-16), begins
  ///   with a byte order mark, is not JSON, or nests deeper than ``JSONCoding/maximumDepth``.
  static func check(_ bytes: [UInt8]) throws(Problem) {
    guard let first = bytes.first else { throw .invalidJSON("The body is empty.") }
    guard first != 0xEF, (try? UTF8Span(validating: bytes.span)) != nil else {
      throw .invalidJSON("The body must be UTF-8 without a byte order mark.")
    }
    var grammar = JSONGrammar(maximumDepth: JSONCoding.maximumDepth)
    do throws(JSONGrammar.Violation) {
      try grammar.check(bytes.span)
    } catch {
      switch error {
      case .malformed(let position): throw .invalidJSON("The body is not JSON, at byte \(position).")
      case .tooDeep:
        throw .invalidJSON("The body is nested deeper than \(JSONCoding.maximumDepth) levels.")
      }
    }
  }
}

import JSON

/// What is checked of JSON before a decoder sees it.
///
/// Foundation's decoder lets trailing commas pass, and does not look at what nobody asks for. What is stored or
/// forwarded should be JSON to everybody.
enum JSONShape {
  /// - Throws: 400 `invalid_json` for what is empty, not UTF-8 (a decoder would also take UTF-16), begins
  ///   with a byte order mark, is not JSON, or nests deeper than ``JSONCoding/maximumDepth``.
  static func check(_ bytes: [UInt8]) throws(Problem) {
    do throws(JSONFailure) {
      try JSONReader.check(bytes, maximumDepth: JSONCoding.maximumDepth)
    } catch {
      throw Problem(error, in: bytes)
    }
  }
}

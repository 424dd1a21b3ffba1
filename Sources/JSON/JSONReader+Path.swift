extension JSONReader {
  /// The failure with its path, or the failure of the syntax check if the bytes are not JSON at all.
  ///
  /// The bytes are read again for the path, so that successful reads do not pay for it.
  func located(_ failure: JSONFailure) -> JSONFailure {
    switch failure.reason {
    case .notUTF8, .malformed, .tooDeep: return failure
    default: break
    }
    var again = self
    again.position = 0
    again.depth = 0
    do throws(JSONFailure) {
      var whole = again
      try whole.skip()
      try whole.finish()
    } catch {
      return error
    }
    var failure = failure
    failure.path = (try? again.path(to: failure.position)) ?? []
    if case .missing(let name) = failure.reason { failure.path.append(.member(name)) }
    return failure
  }

  /// The path to the innermost value that begins at or contains a position.
  private mutating func path(to target: Int) throws(JSONFailure) -> [JSONFailure.Step] {
    var path: [JSONFailure.Step] = []
    while let byte = peek(), position < target {
      switch byte {
      case UInt8(ascii: "{"):
        var members = try beginObject()
        var name = ""
        repeat {
          guard try hasNextMember(&members) else { return path }
          name = try string()
          try colon()
        } while try passes(target)
        path.append(.member(name))
      case UInt8(ascii: "["):
        var elements = try beginArray()
        var index = -1
        repeat {
          guard try hasNextElement(&elements) else { return path }
          index += 1
        } while try passes(target)
        path.append(.element(index))
      default: return path
      }
    }
    return path
  }

  /// Skips the next value, unless it contains the position.
  private mutating func passes(_ target: Int) throws(JSONFailure) -> Bool {
    var behind = self
    try behind.skip()
    guard behind.position <= target else { return false }
    self = behind
    return true
  }
}

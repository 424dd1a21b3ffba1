/// The reason why bytes are not the expected JSON.
///
/// It has the position and the expected kind of value, but not the value, which may be a customer's data.
public struct JSONFailure: Error, Hashable, Sendable {
  /// The kinds of failures.
  public enum Reason: Hashable, Sendable {
    /// Not UTF-8, or a byte order mark.
    case notUTF8
    /// Not JSON as in RFC 8259, or a string with an unpaired surrogate.
    case malformed
    /// Nested deeper than the limit.
    case tooDeep
    /// A required member is missing.
    case missing(String)
    /// `null` instead of a value.
    case null
    /// A value of another kind than the expected one.
    case mismatch(JSONForm)
    /// A value of the right kind that is not allowed, with the expectation in words.
    case invalid(String)
  }

  /// A step of a path.
  public enum Step: Hashable, Sendable {
    /// A member of an object.
    case member(String)
    /// An element of an array, from 0.
    case element(Int)
  }

  /// The kind of the failure.
  public let reason: Reason
  /// The offset of the byte.
  public let position: Int
  /// The path to the invalid or missing value; empty for bytes that are not JSON.
  public internal(set) var path: [Step] = []

  /// A failure without its path, which ``JSONReader/read(_:from:maximumDepth:)`` adds.
  public init(_ reason: Reason, at position: Int) {
    self.reason = reason
    self.position = position
  }
}

/// The kinds of JSON values.
public enum JSONForm: Hashable, Sendable {
  /// Text.
  case string
  /// `true` or `false`.
  case boolean
  /// A number without a fraction, within the range of the type.
  case integer
  /// `[…]`.
  case array
  /// `{…}`.
  case object
}

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

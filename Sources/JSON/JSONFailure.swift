/// Why some bytes are not the JSON that was asked for.
///
/// It says where, and what was expected there, but never what stood there: that may be a customer's.
public struct JSONFailure: Error, Hashable, Sendable {
  /// What is wrong.
  public enum Reason: Hashable, Sendable {
    /// Not UTF-8, or with a byte order mark in front.
    case notUTF8
    /// Not JSON to the letter of RFC 8259, or a string that holds half of a surrogate pair.
    case malformed
    /// Nested deeper than the limit.
    case tooDeep
    /// A member that must be there is not.
    case missing(String)
    /// `null` where there must be a value.
    case null
    /// A value of another kind.
    case mismatch(JSONForm)
    /// A value of the right kind that cannot be: what is expected, in words.
    case unfit(String)
  }

  /// One step on the way from the outermost value to the one that is wrong.
  public enum Step: Hashable, Sendable {
    /// Into the member of an object.
    case member(String)
    /// Into the element of an array, counted from 0.
    case element(Int)
  }

  /// What is wrong.
  public let reason: Reason
  /// At which byte.
  public let position: Int
  /// The way to the value that is wrong or missing; empty for bytes that are not JSON.
  public internal(set) var path: [Step] = []

  /// A failure, without its path: ``JSONReader/read(_:from:maximumDepth:)`` finds that.
  public init(_ reason: Reason, at position: Int) {
    self.reason = reason
    self.position = position
  }
}

/// The kinds of values that a reader asks for.
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

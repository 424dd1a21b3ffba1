/// Why an action of support was not done. Nothing has changed.
public struct SupportRefusal: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of no it is.
  public enum Kind: Sendable, Hashable {
    /// Something that was asked for has the wrong form, or does not fit the app.
    case invalid
    /// There is no such thing.
    case notFound
    /// It can be done once, and was.
    case alreadyDone
  }

  /// What kind of no it is.
  public let kind: Kind
  /// A sentence for the person who asked.
  public let description: String

  static func invalid(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .invalid, description: reason)
  }

  static func notFound(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .notFound, description: reason)
  }

  static func alreadyDone(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .alreadyDone, description: reason)
  }
}

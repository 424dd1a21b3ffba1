/// The error of a support action that was refused. Nothing has changed.
public struct SupportRefusal: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  public enum Kind: Sendable, Hashable {
    /// An argument has the wrong form, or does not fit the app.
    case invalid
    /// The object of the action does not exist.
    case notFound
    /// The action is possible once only, and was done before.
    case alreadyDone
    /// The actor may not do it.
    case forbidden
  }

  /// The kind of error.
  public let kind: Kind
  /// A sentence for the caller.
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

  /// The refusal of a command without a token, where people have tokens and the database's role does not own the tables.
  public static let tokenNeeded = SupportRefusal.forbidden(
    "This action is recorded with the name of a person: set RECEIPTD_TOKEN to your token. An operator with the rights of the "
      + "tables' owner needs none (receiptd-admin --owner).")

  static func forbidden(_ reason: String) -> SupportRefusal {
    SupportRefusal(kind: .forbidden, description: reason)
  }
}

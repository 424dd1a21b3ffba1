import Foundation

/// What an id names.
enum FoundKind: String, Sendable {
  case user, device, childDevice, transaction, order, request, email

  /// The kind in words.
  var words: String {
    switch self {
    case .user: "user"
    case .device: "device"
    case .childDevice: "paired device"
    case .transaction: "transaction"
    case .order: "order"
    case .request: "refused request"
    case .email: "e-mail address"
    }
  }
}

/// The result of a search for an id.
public struct FindResult: Sendable {
  /// The kinds of answers.
  enum Outcome: String, Sendable {
    /// The database has the id, or the App Store told.
    case found
    /// The text has the form of an id, and nothing has it.
    case neverSeen
    /// The text is no id of these apps.
    case notAnID
    /// The database does not have the id, and the App Store may.
    case askApple
  }

  /// The text that was searched for.
  let asked: String
  let outcome: Outcome
  /// The id in the spelling that was found.
  var id: String
  /// The answer in a sentence.
  let detail: String
  /// The matches. If nothing was found, at most the refused requests that name the id.
  var search = CustomerSearch()

  /// Whether something has the id.
  public var isFound: Bool { outcome == .found }
}

import Foundation

/// The owner of a purchase: a user or a device of one app.
public enum Customer: Sendable, Hashable {
  /// A user, by the `sub` of a token or Apple's `appAccountToken`.
  case user(UUID)
  /// A device, by the id that it generated.
  case device(String)

  /// The id without the kind; a UUID in lower case, as in PostgreSQL.
  public var id: String {
    switch self {
    case .user(let id): id.uuidString.lowercased()
    case .device(let id): id
    }
  }
}

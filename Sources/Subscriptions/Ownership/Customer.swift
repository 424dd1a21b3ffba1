import FoundationEssentials

/// Whom a purchase belongs to: a user or a device of one app.
public enum Customer: Sendable, Hashable {
  /// A user, by the `sub` of a token or Apple's `appAccountToken`.
  case user(UUID)
  /// A device, by the name it gives itself.
  case device(String)

  /// The name without its kind; a UUID in lower case, as PostgreSQL writes it.
  public var id: String {
    switch self {
    case .user(let id): id.uuidString.lowercased()
    case .device(let id): id
    }
  }
}

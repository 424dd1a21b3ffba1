import Foundation

/// A customer of one app: a user or a device, which may own purchases.
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

  /// The user's id; `nil` for a device.
  package var userID: UUID? {
    if case .user(let id) = self { id } else { nil }
  }

  /// The device's id; `nil` for a user.
  package var deviceID: String? {
    if case .device(let id) = self { id } else { nil }
  }

  /// Whether this is a user or a device.
  package var kind: CustomerKind {
    switch self {
    case .user: .user
    case .device: .device
    }
  }

  /// `user` or `device`, for columns and responses.
  package var kindWord: String { kind.rawValue }

  /// The name of the customer's advisory lock.
  package var lockName: String {
    switch self {
    case .user(let id): id.uuidString
    case .device(let id): id
    }
  }
}

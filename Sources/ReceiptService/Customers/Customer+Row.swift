import FoundationEssentials
import Subscriptions

extension Customer {
  /// The user's id, where it is a user.
  var userID: UUID? {
    if case .user(let id) = self { id } else { nil }
  }

  /// The device's name, where it is a device.
  var deviceID: String? {
    if case .device(let id) = self { id } else { nil }
  }

  /// The word for columns and answers.
  var kindWord: String {
    switch self {
    case .user: CustomerKind.user.rawValue
    case .device: CustomerKind.device.rawValue
    }
  }

  /// What the customer's advisory lock is taken by.
  var lockName: String {
    switch self {
    case .user(let id): id.uuidString
    case .device(let id): id
    }
  }
}

import Foundation
import Postgres
import Subscriptions

extension Customer {
  /// Decodes the columns `user_id` and `device_id`; `nil` if both are NULL.
  init?(_ row: Row) throws {
    if let user = try row.decode("user_id", as: UUID?.self) {
      self = .user(user)
    } else if let device = try row.decode("device_id", as: String?.self) {
      self = .device(device)
    } else {
      return nil
    }
  }

  /// The user's id; `nil` for a device.
  var userID: UUID? {
    if case .user(let id) = self { id } else { nil }
  }

  /// The device's id; `nil` for a user.
  var deviceID: String? {
    if case .device(let id) = self { id } else { nil }
  }

  /// `user` or `device`, for columns and responses.
  var kindWord: String {
    switch self {
    case .user: CustomerKind.user.rawValue
    case .device: CustomerKind.device.rawValue
    }
  }

  /// The name of the customer's advisory lock.
  var lockName: String {
    switch self {
    case .user(let id): id.uuidString
    case .device(let id): id
    }
  }
}

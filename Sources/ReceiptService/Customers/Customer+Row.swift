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
}

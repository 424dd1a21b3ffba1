import Foundation
import Postgres

extension NotificationRows {
  /// The key of the last row of a page of pending notifications.
  struct PageKey: Sendable {
    var receivedAt: Date
    var uuid: UUID

    /// Before the first page.
    static let start = PageKey(
      receivedAt: .distantPast, uuid: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))

    private init(receivedAt: Date, uuid: UUID) {
      self.receivedAt = receivedAt
      self.uuid = uuid
    }

    init(_ row: Row) throws {
      receivedAt = try row.decode("received_at")
      uuid = try row.decode("notification_uuid")
    }
  }
}

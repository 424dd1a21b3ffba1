import Foundation
import Postgres

extension FreeAccessRows {
  /// A row of ``unfollowed``.
  struct EndedPeriod: Sendable {
    let id: UUID
    let bundleID: String
    let startsAt: Date
    let endsAt: Date

    init(_ row: Row) throws {
      id = try row.decode("id")
      bundleID = try row.decode("bundle_id")
      startsAt = try row.decode("starts_at")
      endsAt = try row.decode("ends_at")
    }
  }
}

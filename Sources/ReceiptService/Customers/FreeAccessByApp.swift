import Foundation
import Postgres
import Subscriptions

/// The periods in which each app was open to everyone.
struct FreeAccessByApp: Sendable {
  private var periods: [String: [FreeAccess.Period]] = [:]

  init() {}

  /// - Parameter rows: of ``CustomerRecordRows/freeAccessByApp``.
  init(_ rows: Rows) throws {
    for row in rows {
      periods[try row.decode("bundle_id"), default: []].append(
        FreeAccess.Period(startsAt: try row.decode("starts_at"), endsAt: try row.decode("ends_at")))
    }
  }

  subscript(app: App) -> FreeAccess { periods[app.bundleID].map { FreeAccess($0) } ?? .never }
}

import Configuration
import Foundation
import Postgres
import Subscriptions

extension Service {
  /// Grants the grandfather tier to all users whose row in the app's own table is older than the rule's date. Repeated and
  /// concurrent runs are safe: each user gets one grant.
  ///
  /// - Parameters:
  ///   - bundleID: only this app; `nil` for all apps with the rule.
  ///   - isDryRun: only count.
  /// - Returns: a report for each app with the rule.
  /// - Throws: errors of the database; grants made before the error stay.
  public func grandfather(
    bundleID: String? = nil, isDryRun: Bool
  ) async throws -> [GrandfatherReport] {
    var reports: [GrandfatherReport] = []
    for app in support.catalog.apps where bundleID == nil || app.bundleID == bundleID {
      guard let rule = app.grandfather else { continue }
      reports.append(try await grandfathering.run(rule, of: app, isDryRun: isDryRun))
    }
    return reports
  }
}

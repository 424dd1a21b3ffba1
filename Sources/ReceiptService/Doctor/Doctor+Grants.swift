import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

extension Doctor {
  /// Checks that the configuration has the tier of every open grant.
  func grants(_ pool: PostgresPool, _ catalog: AppCatalog) async throws -> CheckResult {
    var orphans: [String] = []
    for app in catalog.apps {
      for (tier, count) in try await pool.grantsWithoutTier(in: app, at: clock.now()) {
        orphans.append("\(count) of \(app.bundleID) have the tier '\(tier)'")
      }
    }
    if orphans.isEmpty { return .ok("grants", "the configuration has the tiers of all open grants") }
    return .fail(
      "grants",
      orphans.joined(separator: ", ") + ", which is not in the configuration; these grants give no access",
      "add the tier again, or grant another tier and run receiptd revoke-grant")
  }
}

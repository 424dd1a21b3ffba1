import FoundationEssentials
import Postgres
import Subscriptions

extension Doctor {
  /// Whether every open grant is of a tier that the configuration has.
  func grants(_ pool: PostgresPool, _ catalog: AppCatalog) async throws -> Finding {
    var troubles: [String] = []
    for app in catalog.apps {
      for (tier, count) in try await pool.grantsWithoutTier(in: app, at: clock.now()) {
        troubles.append("\(count) of \(app.bundleID) are of the tier '\(tier)'")
      }
    }
    if troubles.isEmpty { return .ok("grants", "the configuration has the tiers of all that are open") }
    return .fail(
      "grants",
      troubles.joined(separator: ", ") + ", which the configuration does not have: they open nothing",
      "add the tier again, or grant another one and run receiptd revoke-grant")
  }
}

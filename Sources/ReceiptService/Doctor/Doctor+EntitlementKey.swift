import Configuration
import Foundation
import Postgres
import Work

extension Doctor {
  /// Checks the keys of entitlement tokens. It creates none.
  func entitlementKey(_ settings: Settings, _ pool: PostgresPool) async throws -> CheckResult {
    let subject = "entitlement key"
    if let keys = settings.entitlementKeys {
      return check(EntitlementKeyRing(files: keys.map { EntitlementKey($0) }), "of ENTITLEMENT_KEY")
    }
    do {
      let entries = try await pool.query(EntitlementKeyRows.select).map(EntitlementKeyRows.decode)
      guard !entries.isEmpty else { return .ok(subject, "none yet; the first start creates one") }
      return check(EntitlementKeyRing(entries, lifetime: 0), "of the database")
    } catch let damage as DamagedEntitlementKey {
      return .fail(subject, "\(damage)", "run receiptd rotate-entitlement-key --leaked")
    }
  }

  private func check(_ ring: EntitlementKeyRing, _ source: String) -> CheckResult {
    .ok("entitlement key", "\(ring.signing(at: clock.now())?.kid ?? "none") \(source) signs")
  }
}

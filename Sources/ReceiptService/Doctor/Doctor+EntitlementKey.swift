import FoundationEssentials
import Postgres

extension Doctor {
  /// Looks at the keys of entitlement tokens, and makes none.
  func entitlementKey(_ settings: Settings, _ pool: PostgresPool) async throws -> Finding {
    let subject = "entitlement key"
    if let keys = settings.entitlementKeys {
      return finding(EntitlementKeyRing(files: keys), "of ENTITLEMENT_KEY")
    }
    do {
      let entries = try await pool.query(EntitlementKeyRows.select).map(EntitlementKeyRows.decode)
      guard !entries.isEmpty else { return .ok(subject, "none yet: the first start makes one") }
      return finding(EntitlementKeyRing(entries, lifetime: 0), "of the database")
    } catch let damage as DamagedEntitlementKey {
      return .fail(subject, "\(damage)", "run receiptd rotate-entitlement-key --leaked")
    }
  }

  private func finding(_ ring: EntitlementKeyRing, _ whose: String) -> Finding {
    .ok("entitlement key", "\(ring.signing(at: clock.now())?.kid ?? "none") \(whose) signs")
  }
}

import Logging
import Postgres
import Subscriptions

/// The table `configured_apps`: what the support views have to know of the configuration, so that they say what the
/// answers say.
struct ConfiguredApps: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool

  /// Writes what is different there. In order, so that servers that start together do not wait for each other in a circle.
  func write() async throws {
    let apps = catalog.apps.sorted { $0.bundleID < $1.bundleID }
    _ = try await pool.withConnection { connection in try await connection.pipeline(apps.map(Self.upsert)) }
  }

  private static func upsert(_ app: App) -> Query {
    let testers: [String] =
      if case .testers(let ids) = app.sandboxGrants { ids.map { $0.lowercased() }.sorted() } else { [] }
    return """
      INSERT INTO configured_apps AS known
        (bundle_id, grace_days, shares_purchases, sandbox_for_everyone, sandbox_testers)
      VALUES (\(app.bundleID), \(app.grace?.days ?? 0), \(app.sharesPurchases),
        \(app.sandboxGrants == .everyone), \(testers))
      ON CONFLICT (bundle_id) DO UPDATE SET grace_days = excluded.grace_days,
        shares_purchases = excluded.shares_purchases, sandbox_for_everyone = excluded.sandbox_for_everyone,
        sandbox_testers = excluded.sandbox_testers
      WHERE known IS DISTINCT FROM excluded
      """
  }
}

extension Service {
  /// Tells the support views what the configuration says. Where the database is away, again until it is back.
  public func noteConfiguration() async {
    while !Task.isCancelled {
      do {
        return try await configuredApps.write()
      } catch {
        logger.warning("the configuration could not be noted for support", metadata: ["reason": "\(error)"])
        try? await Task.sleep(for: .seconds(30))
      }
    }
  }
}

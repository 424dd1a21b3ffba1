import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// The table `configured_apps`: what the support views have to know of the configuration, so that they say what the
/// answers say.
///
/// It also marks for the sweep the rows that were written under another configuration: purchases and awards of the sandbox,
/// and grants whose tier came or went. It compares the rows with the configuration, not with the one before: several
/// servers read a changed file one after the other, and each finds the rows that another server wrote under the former one.
struct ConfiguredApps: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let clock: ServiceClock
  let logger: Logger

  private static let batch = 2_000

  /// Writes what is different there. In order, so that servers that start together do not wait for each other in a circle.
  func write() async throws {
    let apps = catalog.apps.sorted { $0.bundleID < $1.bundleID }
    _ = try await pool.withConnection { connection in try await connection.pipeline(apps.map(Self.upsert)) }
    for app in apps {
      try await inBatches { GrantRows.recount(under: app, at: clock.now(), limit: $0) }
      try await inBatches { SandboxRows.recount(under: app, at: clock.now(), limit: $0) }
      try await noteDevices(of: app)
      for (tier, count) in try await pool.grantsWithoutTier(in: app, at: clock.now()) {
        logger.warning(
          "grants are open whose tier is not in the configuration: they open nothing",
          metadata: ["bundleID": "\(app.bundleID)", "tier": "\(tier)", "grants": "\(count)"])
      }
    }
  }

  private func inBatches(_ query: (Int) -> Query) async throws {
    while try await pool.query(query(Self.batch)).count == Self.batch {}
  }

  /// Notes devices with a trial of the sandbox, or a share in a purchase of it: their state is sent again if it changed.
  private func noteDevices(of app: App) async throws {
    guard app.customer == .device, !app.outboxLanes.isEmpty else { return }
    let devices = try await pool.query(SandboxRows.devices(of: app)).map { try $0.decode(0, as: String.self) }
    for start in stride(from: 0, to: devices.count, by: Self.batch) {
      let changes = devices[start..<min(start + Self.batch, devices.count)].map {
        CustomerChange(bundleID: app.bundleID, customer: .device($0))
      }
      guard let notes = CustomerChanges.enqueue(changes, in: catalog, at: clock.now()) else { return }
      _ = try await pool.query(notes)
    }
  }

  private static func upsert(_ app: App) -> Query {
    """
    INSERT INTO configured_apps AS known
      (bundle_id, grace_days, shares_purchases, sandbox_for_everyone, sandbox_testers)
    VALUES (\(app.bundleID), \(app.grace?.days ?? 0), \(app.sharesPurchases),
      \(app.sandboxGrants == .everyone), \(app.testers))
    ON CONFLICT (bundle_id) DO UPDATE SET grace_days = excluded.grace_days,
      shares_purchases = excluded.shares_purchases, sandbox_for_everyone = excluded.sandbox_for_everyone,
      sandbox_testers = excluded.sandbox_testers
    WHERE known IS DISTINCT FROM excluded
    """
  }
}

extension App {
  /// The listed testers, in lower case.
  var testers: [String] {
    if case .testers(let ids) = sandboxGrants { ids.map { $0.lowercased() }.sorted() } else { [] }
  }
}

/// Rows of the sandbox that depend on the configuration.
private enum SandboxRows {
  /// Has the sweep judge purchases again of which the column `is_counted` says something else than the configuration.
  /// - Returns: a row for each.
  static func recount(under app: App, at instant: Date, limit: Int) -> Query {
    """
    UPDATE subscriptions SET next_change_at = \(instant)
    WHERE original_transaction_id IN (
      SELECT original_transaction_id FROM subscriptions
      WHERE bundle_id = \(app.bundleID) AND environment = 'Sandbox' AND tier IS NOT NULL
        AND (next_change_at IS NULL OR next_change_at > \(instant))
        AND is_counted IS DISTINCT FROM (\(app.sandboxGrants == .everyone)
          OR coalesce(lower(coalesce(user_id::text, device_id)) = ANY(\(app.testers)), false))
      ORDER BY original_transaction_id LIMIT \(limit) FOR NO KEY UPDATE)
    RETURNING original_transaction_id
    """
  }

  /// Devices with a trial of the sandbox, or that share a purchase of it.
  static func devices(of app: App) -> Query {
    """
    SELECT device_id FROM trials WHERE bundle_id = \(app.bundleID) AND environment <> 'Production'
    UNION
    SELECT d.device_id FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
    WHERE s.bundle_id = \(app.bundleID) AND s.environment = 'Sandbox'
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

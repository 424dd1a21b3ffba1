import Adoption
import Configuration
import Customers
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// Writes the tables `configured_apps` and `client_write_modes`, which give the support views and the triggers on the
/// app's own tables the parts of the configuration that they need.
///
/// It also makes rows due for the sweep that depend on a changed part of the configuration: sandbox purchases, sandbox
/// awards, and grants whose tier was added or removed. It compares the rows with the current configuration, not with
/// the former one, because servers reload one after the other and may write rows under the former configuration
/// meanwhile.
struct ConfiguredApps: Sendable {
  let catalog: AppCatalog
  let clientWriteModes: ClientWriteModes
  let pool: PostgresPool
  let clock: ServiceClock
  let logger: Logger

  private static let batch = 2_000

  /// Writes the rows that differ. The order by bundle id keeps servers that start together from deadlocks.
  func write() async throws {
    try await clientWriteModes.write(to: pool)
    let apps = catalog.apps.sorted { $0.bundleID < $1.bundleID }
    for app in apps {
      try await inBatches { GrantRows.recount(under: app, at: clock.now(), limit: $0) }
      try await inBatches { SandboxRows.recount(under: app, at: clock.now(), limit: $0) }
      try await enqueueDevices(of: app)
      for (tier, count) in try await pool.grantsWithoutTier(in: app, at: clock.now()) {
        logger.warning(
          "open grants have a tier that is not in the configuration; they give no access",
          metadata: ["bundleID": "\(app.bundleID)", "tier": "\(tier)", "grants": "\(count)"])
      }
    }
    // Last, so that the next run of the job for windows finds what a run that failed has left.
    _ = try await pool.withConnection { connection in
      try await connection.pipeline(apps.map { Self.upsert($0, at: clock.now()) })
    }
  }

  /// Closes windows for sandbox purchases that have ended. Responses compare the time themselves; rows, profiles and
  /// the support views follow with this job and the sweep.
  var windowJob: BackgroundJob {
    BackgroundJob("sandbox windows", every: .seconds(20)) { try await closeWindows() }
  }

  /// Writes the configuration again if the table has a window open that has ended.
  func closeWindows() async throws {
    let ended = catalog.apps.filter { app in
      guard case .everyoneUntil(let end) = app.sandboxGrants else { return false }
      return end <= clock.now()
    }
    guard !ended.isEmpty else { return }
    let open = try await pool.query(
      """
      SELECT 1 FROM configured_apps
      WHERE bundle_id = ANY(\(ended.map(\.bundleID).sorted())) AND sandbox_for_everyone LIMIT 1
      """)
    if !open.isEmpty { try await write() }
  }

  private func inBatches(_ query: (Int) -> Query) async throws {
    while try await pool.query(query(Self.batch)).count == Self.batch {}
  }

  /// Adds outbox rows for devices with a sandbox trial or a shared sandbox purchase. Deliveries skip unchanged states.
  private func enqueueDevices(of app: App) async throws {
    guard app.customer == .device, !app.stateDestinations.isEmpty else { return }
    let devices = try await pool.query(SandboxRows.devices(of: app)).map {
      try $0.decode("device_id", as: String.self)
    }
    for start in stride(from: 0, to: devices.count, by: Self.batch) {
      let changes = devices[start..<min(start + Self.batch, devices.count)].map {
        CustomerChange(bundleID: app.bundleID, customer: .device($0))
      }
      guard let query = CustomerChanges.enqueue(changes, in: catalog, at: clock.now()) else { return }
      _ = try await pool.query(query)
    }
  }

  private static func upsert(_ app: App, at instant: Date) -> Query {
    """
    INSERT INTO configured_apps AS known
      (bundle_id, grace_days, shares_purchases, sandbox_for_everyone, sandbox_testers)
    VALUES (\(app.bundleID), \(app.grace?.days ?? 0), \(app.sharesPurchases),
      \(app.sandboxGrants.isOpenToEveryone(at: instant)), \(app.testers))
    ON CONFLICT (bundle_id) DO UPDATE SET grace_days = excluded.grace_days,
      shares_purchases = excluded.shares_purchases, sandbox_for_everyone = excluded.sandbox_for_everyone,
      sandbox_testers = excluded.sandbox_testers
    WHERE known IS DISTINCT FROM excluded
    """
  }
}

/// The queries on sandbox rows that depend on the configuration.
private enum SandboxRows {
  /// Makes purchases due for the sweep whose column `is_counted` differs from the configuration. Returns a row for
  /// each.
  static func recount(under app: App, at instant: Date, limit: Int) -> Query {
    """
    UPDATE subscriptions SET next_change_at = \(instant)
    WHERE original_transaction_id IN (
      SELECT original_transaction_id FROM subscriptions
      WHERE bundle_id = \(app.bundleID) AND environment <> 'Production' AND tier IS NOT NULL
        AND (next_change_at IS NULL OR next_change_at > \(instant))
        AND is_counted IS DISTINCT FROM (\(app.sandboxGrants.isOpenToEveryone(at: instant))
          OR coalesce(lower(coalesce(user_id::text, device_id)) = ANY(\(app.testers)), false))
      ORDER BY original_transaction_id LIMIT \(limit) FOR NO KEY UPDATE)
    RETURNING original_transaction_id
    """
  }

  /// The devices with a sandbox trial or a shared sandbox purchase.
  static func devices(of app: App) -> Query {
    """
    SELECT device_id FROM trials WHERE bundle_id = \(app.bundleID) AND environment <> 'Production'
    UNION
    SELECT d.device_id FROM purchase_devices d JOIN subscriptions s USING (original_transaction_id)
    WHERE s.bundle_id = \(app.bundleID) AND s.environment <> 'Production'
    """
  }
}

extension Service {
  /// Writes the table `configured_apps`; while the database is unavailable, tries again.
  func writeConfiguredApps() async {
    await jobRunner.runUntilSuccess(
      BackgroundJob("configured apps", every: .seconds(30)) { try await self.configuredApps.write() })
  }
}

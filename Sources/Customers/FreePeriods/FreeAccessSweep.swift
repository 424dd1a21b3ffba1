import Actions
import Configuration
import Foundation
import JSON
import Logging
import Postgres
import Subscriptions
import Text
import Work

/// A background job that makes subscriptions due for the expiry sweep after free access is switched off.
///
/// While free access is on, an app's own grace is suspended and its end is unknown, so such rows have no
/// `next_change_at`. The job runs for one minute after the switch, on every server: transactions that began before the
/// switch may commit rows after it. Repeated runs are harmless.
package struct FreeAccessSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger

  package init(pool: PostgresPool, catalog: AppCatalog, clock: ServiceClock, logger: Logger) {
    self.pool = pool
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
  }

  /// The writes to the apps' own tables.
  private var tables: FreeAccessTables {
    FreeAccessTables(pool: pool, catalog: catalog, clock: clock, logger: logger)
  }

  /// Follows a switch of an app at once: its own tables and its destinations. What fails here, the job does within
  /// seconds.
  package func follow(_ bundleID: String) async {
    try? await tables.run()
    try? await tell(bundleID)
  }

  /// Longer than any transaction of the ledger, and than the clocks of two servers may differ.
  private static let watchTime: TimeInterval = 60
  private static let batch = 2_000

  /// Tells the destinations of apps whose free access was switched on or off about all their customers, some at a time:
  /// a switch of an app with many customers must not hold their rows. Repeated after a stop it begins anew, which does
  /// no harm.
  /// - Parameter bundleID: only this app; `nil` for all apps.
  package func tell(_ bundleID: String? = nil) async throws {
    var failure: (any Error)?
    for row in try await pool.query(FreeAccessRows.untold) {
      // A server that does not know the app leaves it to others.
      guard let app = catalog[try row.decode("bundle_id", as: String.self)],
        bundleID == nil || app.bundleID == bundleID
      else { continue }
      do {
        try await CustomerChanges.enqueueEveryone(of: app, at: clock.now(), in: pool)
        _ = try await pool.query(
          FreeAccessRows.setTold(
            try row.decode("id"), isOver: try row.decode("is_over", as: Bool.self), at: clock.now()))
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
  }

  /// - Returns: the number of subscriptions made due.
  @discardableResult
  package func run() async throws -> Int {
    var count = 0
    for period in try await pool.query(FreeAccessRows.unfollowed).map(FreeAccessRows.EndedPeriod.init) {
      guard let app = catalog[period.bundleID] else { continue }
      if let grace = app.grace {
        let reach = try await reach(of: grace, before: period.startsAt, in: app)
        while true {
          let due = try await pool.query(
            FreeAccessRows.makeDue(
              bundleID: app.bundleID, from: period.startsAt, until: period.endsAt, reach: reach,
              limit: Self.batch))
          count += due.count
          if due.count < Self.batch { break }
        }
      }
      let instant = clock.now()
      if instant.timeIntervalSince(period.endsAt) > Self.watchTime {
        _ = try await pool.query(FreeAccessRows.setFollowed(period.id, at: instant))
      }
    }
    // Last, since both may take long. A table that refuses does not hold up the destinations.
    let written: Result<Void, any Error>
    do { written = .success(try await tables.run()) } catch { written = .failure(error) }
    try await tell()
    try written.get()
    return count
  }

  /// The longest time between the end of a paid period and the end of its grace: earlier periods of free access may
  /// have postponed the end too.
  private func reach(of grace: Allowance, before start: Date, in app: App) async throws -> TimeInterval {
    let freeAccess = try FreeAccessByApp(try await pool.query(FreeAccessByApp.select))[app]
    return freeAccess.periods.reduce(grace.duration) { reach, period in
      guard let end = period.endsAt, end <= start else { return reach }
      return reach + end.timeIntervalSince(period.startsAt)
    }
  }
}

/// Statements on the table `free_access`, and on the subscriptions that it affects.
package enum FreeAccessRows {
  /// Returns no row if free access is on already.
  package static func open(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    INSERT INTO free_access (bundle_id, starts_at, started_by, reason)
    VALUES (\(app.bundleID), \(instant), \(author.by), \(author.reason))
    ON CONFLICT (bundle_id) WHERE ends_at IS NULL DO NOTHING RETURNING id
    """
  }

  /// Returns no row if free access is off already.
  package static func close(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE free_access SET ends_at = greatest(starts_at, \(instant)), ended_by = \(author.by)
    WHERE bundle_id = \(app.bundleID) AND ends_at IS NULL RETURNING id
    """
  }

  /// When free access was last switched on or off (`since`).
  package static func latest(_ app: App, isOn: Bool) -> Query {
    """
    SELECT CASE WHEN \(isOn) THEN max(starts_at) ELSE max(ends_at) END AS since FROM free_access
    WHERE bundle_id = \(app.bundleID)
    """
  }

  /// Ended periods whose subscriptions may still need another expiry sweep: rows for ``FreeAccessRows/EndedPeriod``.
  static let unfollowed: Query = """
    SELECT id, bundle_id, starts_at, ends_at FROM free_access
    WHERE ends_at IS NOT NULL AND followed_at IS NULL
    """

  /// Makes subscriptions due for the expiry sweep whose app grace the period may have changed: the paid period ended
  /// before free access did and its grace had not ended before that; or the row was computed during free access, when
  /// the grace had no end, and may have been written after it.
  /// - Parameter reach: the longest time between the end of a paid period and the end of its grace.
  static func makeDue(
    bundleID: String, from start: Date, until end: Date, reach: TimeInterval, limit: Int
  ) -> Query {
    """
    UPDATE subscriptions SET next_change_at = \(end)
    WHERE original_transaction_id IN (
      SELECT original_transaction_id FROM subscriptions
      WHERE bundle_id = \(bundleID) AND expiry_date > \(start - reach)
        AND revoked_at IS NULL
        AND (expiry_date <= \(end) AND updated_at <= \(end) OR phase_statuses[cardinality(phase_statuses)] = 'grace')
        AND (next_change_at IS NULL OR next_change_at > \(end))
      LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING original_transaction_id
    """
  }

  /// The periods whose beginning, or end (`is_over`), the app's destinations have not been told.
  static let untold: Query = """
    SELECT id, bundle_id, ends_at IS NOT NULL AS is_over FROM free_access
    WHERE told_at IS NULL OR ends_at IS NOT NULL AND end_told_at IS NULL
    """

  static func setTold(_ id: UUID, isOver: Bool, at instant: Date) -> Query {
    """
    UPDATE free_access SET told_at = coalesce(told_at, \(instant)),
      end_told_at = CASE WHEN \(isOver) THEN \(instant) ELSE end_told_at END
    WHERE id = \(id)
    """
  }

  static func setFollowed(_ id: UUID, at instant: Date) -> Query {
    "UPDATE free_access SET followed_at = \(instant) WHERE id = \(id)"
  }
}

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

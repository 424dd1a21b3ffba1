import Actions
import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// A row of `grants`: the grant, its customer, and the records for support.
package struct StoredGrant: Sendable {
  package var grant: Grant
  package var bundleID: String
  package var customer: Customer
  package var reason: String
  package var grantedBy: String
  package var revokedAt: Date?
  package var revokedBy: String?

  package init(
    grant: Grant, bundleID: String, customer: Customer, reason: String, grantedBy: String,
    revokedAt: Date? = nil, revokedBy: String? = nil
  ) {
    self.grant = grant
    self.bundleID = bundleID
    self.customer = customer
    self.reason = reason
    self.grantedBy = grantedBy
    self.revokedAt = revokedAt
    self.revokedBy = revokedBy
  }

  /// Decodes a row of ``GrantRows``.
  package init(_ row: Row) throws {
    guard let customer = try Customer(row) else { throw UnreadableRow(column: "user_id") }
    self.init(
      grant: try Grant(row), bundleID: try row.decode("bundle_id"), customer: customer,
      reason: try row.decode("reason"), grantedBy: try row.decode("granted_by"),
      revokedAt: try row.decode("revoked_at"), revokedBy: try row.decode("revoked_by"))
  }
}

extension Grant {
  /// Decodes a row with the table's columns `id`, `tier`, `starts_at`, `ends_at` and `environment`.
  package init(_ row: Row) throws {
    self.init(
      id: try row.decode("id"), tier: try row.decode("tier"), startsAt: try row.decode("starts_at"),
      endsAt: try row.decode("ends_at"),
      environment: try StoreEnvironment(stored: row.decode("environment")))
  }
}

/// A background job that writes profiles and queues webhook events when a grant begins or ends. (Responses read the
/// grants themselves.)
///
/// Any number of servers may run it: each customer is locked, and a customer that one server has written is not due for
/// the next. A grant that began and ended while no server ran is due once.
package struct GrantSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let statusWriter: CustomerStatusWriter
  let clock: ServiceClock

  package init(
    pool: PostgresPool, catalog: AppCatalog, statusWriter: CustomerStatusWriter, clock: ServiceClock
  ) {
    self.pool = pool
    self.catalog = catalog
    self.statusWriter = statusWriter
    self.clock = clock
  }

  private static let batch = 128
  /// Bounds a run, so that a large backfill does not delay the other jobs.
  private static let maximumPerRun = 1_024

  /// Writes the due customers, up to the maximum of one run.
  /// - Returns: the number of customers written.
  package func run() async throws -> Int {
    var count = 0
    var seen: Set<GrantRows.Due> = []
    while count < Self.maximumPerRun {
      let instant = clock.now()
      let rows = try await pool.query(
        GrantRows.due(in: catalog.apps.map(\.bundleID), at: instant, limit: Self.batch))
      let fresh = try rows.compactMap(GrantRows.Due.init).filter { seen.insert($0).inserted }
      guard !fresh.isEmpty else { return count }
      for due in fresh where try await tryFollowing(due, at: instant) { count += 1 }
    }
    return count
  }

  /// An unreadable row, or a lock that another transaction holds, fails this customer only; the sweep goes on.
  private func tryFollowing(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    do {
      return try await follow(due, at: instant)
    } catch let error as UnreadableRow {
      statusWriter.logger.error("a customer's row cannot be read", metadata: ["column": "\(error.column)"])
      return false
    } catch let error as PostgresError where error.isLockNotGranted {
      // The customer stays due.
      statusWriter.logger.warning(
        "a customer's lock was not granted in time", metadata: ["app": "\(due.bundleID)"])
      return false
    }
  }

  private func follow(_ due: GrantRows.Due, at instant: Date) async throws -> Bool {
    guard let app = catalog[due.bundleID] else { return false }
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerStatusWriter.lock([due.customer], timeout: LockedGroups.lockTimeout),
        GrantRows.follow(due, under: app, at: instant),
      ])
      guard !answers[1].isEmpty else { return false }
      try await statusWriter.write([due.customer], of: due.bundleID, at: instant, on: connection)
      return true
    }
  }
}

/// Statements on the table `grants`, for support and for the grant sweep.
package enum GrantRows {
  /// The value of `granted_by` of grandfather grants.
  static let grandfather = "grandfather"

  package static func insert(_ grant: Grant, to customer: Customer, of app: App, by author: SupportAuthor)
    -> Query
  {
    """
    INSERT INTO grants (id, bundle_id, user_id, device_id, tier, starts_at, ends_at, reason, granted_by,
      created_at, followed_until)
    VALUES (\(grant.id), \(app.bundleID), \(customer.userID), \(customer.deviceID), \(grant.tier),
      \(grant.startsAt), \(grant.endsAt), \(author.reason), \(author.by), \(grant.startsAt),
      \(grant.startsAt))
    """
  }

  private static let columns: StaticString = """
    id, bundle_id, user_id, device_id, tier, starts_at, ends_at, reason, granted_by, revoked_at, revoked_by,
    environment
    """

  package static func select(_ id: UUID) -> Query {
    "SELECT \(unescaped: columns) FROM grants WHERE id = \(id)"
  }

  /// All grants of these customers, newest first, including ended and revoked ones.
  package static func select(of customers: [Customer]) -> Query {
    """
    SELECT \(unescaped: columns) FROM grants
    WHERE user_id = ANY(\(customers.compactMap(\.userID)))
      OR device_id = ANY(\(customers.compactMap(\.deviceID)))
    ORDER BY starts_at DESC, id
    """
  }

  /// Returns no row if the grant is revoked already.
  package static func revoke(_ id: UUID, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE grants SET revoked_at = \(instant), revoked_by = \(author.by), followed_until = \(instant)
    WHERE id = \(id) AND revoked_at IS NULL RETURNING id
    """
  }

  // MARK: The configuration

  /// The SQL form of `App.counts`, for a row of `grants`.
  private static func isCounted(under app: App, at instant: Date) -> Query {
    """
    (tier = ANY(\(app.tiers.keys.sorted())) AND (environment = 'Production'
      OR \(app.sandboxGrants.isOpenToEveryone(at: instant)) OR lower(coalesce(user_id::text, device_id)) = ANY(\(app.testers))))
    """
  }

  /// Makes open grants due for the sweep whose `is_counted` does not match the configuration. Returns a row for each.
  package static func recount(under app: App, at instant: Date, limit: Int) -> Query {
    """
    UPDATE grants SET is_counted = NOT is_counted, followed_until = NULL
    WHERE id IN (
      SELECT id FROM grants
      WHERE bundle_id = \(app.bundleID) AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant))
        AND is_counted <> \(isCounted(under: app, at: instant))
      ORDER BY id LIMIT \(limit) FOR NO KEY UPDATE)
    RETURNING id
    """
  }

  /// Counts the open and future grants of each tier that is not in the configuration.
  static func withoutTier(in app: App, at instant: Date) -> Query {
    """
    SELECT tier, count(*) AS count FROM grants
    WHERE bundle_id = \(app.bundleID) AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant))
      AND tier <> ALL(\(app.tiers.keys.sorted()))
    GROUP BY tier ORDER BY tier
    """
  }

  // MARK: The sweep

  /// A customer of one app whose profile has to be written because of a grant.
  package struct Due: Sendable, Hashable {
    package var customer: Customer
    package var bundleID: String

    /// - Returns: `nil` for a grant without a customer.
    package init?(_ row: Row) throws {
      guard let customer = try Customer(row) else { return nil }
      self.customer = customer
      bundleID = try row.decode("bundle_id")
    }
  }

  /// Customers with a grant that began or ended after `followed_until`, the instant for which their profile was
  /// written. Also customers whose `followed_until` is in the future, written by a server whose clock is ahead, if a
  /// grant begins or ends before it.
  static func due(in bundleIDs: [String], at instant: Date, limit: Int) -> Query {
    // Tolerate small clock differences, so that two servers do not rewrite a profile in alternation.
    let ahead = instant.addingTimeInterval(ClockCorrection.tolerance)
    // Three scans of partial indexes: the first two contain future changes only, the third is read from its end.
    return """
      (SELECT user_id, device_id, bundle_id FROM grants
       WHERE starts_at <= \(instant) AND (followed_until IS NULL OR followed_until < starts_at)
         AND bundle_id = ANY(\(bundleIDs))
       ORDER BY starts_at LIMIT \(limit))
      UNION
      (SELECT user_id, device_id, bundle_id FROM grants
       WHERE next_change_at <= \(instant) AND (followed_until IS NULL OR followed_until < next_change_at)
         AND bundle_id = ANY(\(bundleIDs))
       ORDER BY next_change_at LIMIT \(limit))
      UNION
      (SELECT user_id, device_id, bundle_id FROM grants
       WHERE followed_until > \(ahead) AND \(isFollowedAhead(at: ahead)) AND bundle_id = ANY(\(bundleIDs))
       ORDER BY followed_until LIMIT \(limit))
      """
  }

  /// Whether a grant begins or ends between this instant and `followed_until`.
  private static func isFollowedAhead(at instant: Date) -> Query {
    """
    (starts_at > \(instant) AND starts_at <= followed_until
      OR next_change_at > \(instant) AND next_change_at <= followed_until)
    """
  }

  /// Records that the customer's profile reflects all of the customer's grants of the app at this instant, under this
  /// configuration. Returns no row if another server did so first.
  static func follow(_ due: Due, under app: App, at instant: Date) -> Query {
    """
    UPDATE grants SET followed_until = \(instant), is_counted = \(isCounted(under: app, at: instant))
    WHERE (user_id = \(due.customer.userID) OR device_id = \(due.customer.deviceID))
      AND bundle_id = \(due.bundleID)
      AND (starts_at <= \(instant) AND (followed_until IS NULL OR followed_until < starts_at)
        OR next_change_at <= \(instant) AND (followed_until IS NULL OR followed_until < next_change_at)
        OR \(isFollowedAhead(at: instant)))
    RETURNING id
    """
  }
}

extension PostgresPool {
  /// Counts an app's open and future grants of each tier that is not in its configuration.
  package func grantsWithoutTier(in app: App, at instant: Date) async throws -> [(tier: String, count: Int)] {
    try await query(GrantRows.withoutTier(in: app, at: instant)).map {
      (tier: try $0.decode("tier"), count: try $0.decode("count"))
    }
  }
}

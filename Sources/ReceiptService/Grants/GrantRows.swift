import FoundationEssentials
import Postgres
import Subscriptions

/// The table `grants`, as support and the sweep write it.
enum GrantRows {
  /// Who gives to owners from before a date.
  static let grandfather = "grandfather"

  static func insert(_ grant: Grant, to customer: Customer, of app: App, by author: SupportAuthor) -> Query {
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

  static func select(_ id: UUID) -> Query {
    "SELECT \(unescaped: columns) FROM grants WHERE id = \(id)"
  }

  /// All of these customers, over, revoked and open, the latest first.
  static func select(of customers: [Customer]) -> Query {
    """
    SELECT \(unescaped: columns) FROM grants
    WHERE user_id = ANY(\(customers.compactMap(\.userID)))
      OR device_id = ANY(\(customers.compactMap(\.deviceID)))
    ORDER BY starts_at DESC, id
    """
  }

  /// - Returns: no row where somebody else has revoked it.
  static func revoke(_ id: UUID, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE grants SET revoked_at = \(instant), revoked_by = \(author.by), followed_until = \(instant)
    WHERE id = \(id) AND revoked_at IS NULL RETURNING id
    """
  }

  static func decode(_ row: Row) throws -> StoredGrant {
    let user = try row.decode(2, as: UUID?.self).map(Customer.user)
    guard let customer = try user ?? row.decode(3, as: String?.self).map(Customer.device) else {
      throw UnreadableRow(column: "user_id")
    }
    return StoredGrant(
      grant: Grant(
        id: try row.decode(0), tier: try row.decode(4), startsAt: try row.decode(5),
        endsAt: try row.decode(6), environment: try environment(row.decode(11))),
      bundleID: try row.decode(1), customer: customer, reason: try row.decode(7),
      grantedBy: try row.decode(8), revokedAt: try row.decode(9), revokedBy: try row.decode(10))
  }

  // MARK: The configuration

  /// The rule of `App.counts`, for the row at hand.
  private static func isCounted(under app: App) -> Query {
    """
    (tier = ANY(\(app.tiers.keys.sorted())) AND (environment = 'Production'
      OR \(app.sandboxGrants == .everyone) OR lower(coalesce(user_id::text, device_id)) = ANY(\(app.testers))))
    """
  }

  /// Has the sweep follow open grants of which the column `is_counted` says something else than the configuration.
  /// - Returns: a row for each.
  static func recount(under app: App, at instant: Date, limit: Int) -> Query {
    """
    UPDATE grants SET is_counted = NOT is_counted, followed_until = NULL
    WHERE id IN (
      SELECT id FROM grants
      WHERE bundle_id = \(app.bundleID) AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant))
        AND is_counted <> \(isCounted(under: app))
      ORDER BY id LIMIT \(limit) FOR NO KEY UPDATE)
    RETURNING id
    """
  }

  /// How many grants are open, or are to come, of each tier that the configuration does not have.
  static func withoutTier(in app: App, at instant: Date) -> Query {
    """
    SELECT tier, count(*) FROM grants
    WHERE bundle_id = \(app.bundleID) AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant))
      AND tier <> ALL(\(app.tiers.keys.sorted()))
    GROUP BY tier ORDER BY tier
    """
  }

  // MARK: The sweep

  /// A customer of one app whose grants are to be followed.
  struct Due: Sendable, Hashable {
    var customer: Customer
    var bundleID: String
  }

  /// Customers with a grant that has begun or ended since their profile was last written because of it, or that was
  /// followed as of a time to come, in which it begins or ends: by a server whose clock is ahead.
  static func due(in bundleIDs: [String], at instant: Date, limit: Int) -> Query {
    // By less than this the clocks of two servers may differ, and they shall not write a profile by turns.
    let ahead = instant.addingTimeInterval(Doctor.clockTolerance)
    // Scans by partial index: the first two hold only what is still to come, the third one reads only the end of its index.
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

  /// Whether a grant begins or ends between now and the instant as of which it was followed.
  private static func isFollowedAhead(at instant: Date) -> Query {
    """
    (starts_at > \(instant) AND starts_at <= followed_until
      OR next_change_at > \(instant) AND next_change_at <= followed_until)
    """
  }

  static func decodeDue(_ row: Row) throws -> Due? {
    let user = try row.decode(0, as: UUID?.self).map(Customer.user)
    guard let customer = try user ?? row.decode(1, as: String?.self).map(Customer.device) else { return nil }
    return Due(customer: customer, bundleID: try row.decode(2))
  }

  /// Notes that the customer's profile follows all of the customer's grants of the app as of this instant, under this
  /// configuration.
  /// - Returns: no row where another server has done so.
  static func follow(_ due: Due, under app: App, at instant: Date) -> Query {
    """
    UPDATE grants SET followed_until = \(instant), is_counted = \(isCounted(under: app))
    WHERE (user_id = \(due.customer.userID) OR device_id = \(due.customer.deviceID))
      AND bundle_id = \(due.bundleID)
      AND (starts_at <= \(instant) AND (followed_until IS NULL OR followed_until < starts_at)
        OR next_change_at <= \(instant) AND (followed_until IS NULL OR followed_until < next_change_at)
        OR \(isFollowedAhead(at: instant)))
    RETURNING id
    """
  }
}

/// A grant with what its row has beyond what it opens.
struct StoredGrant: Sendable {
  var grant: Grant
  var bundleID: String
  var customer: Customer
  var reason: String
  var grantedBy: String
  var revokedAt: Date?
  var revokedBy: String?
}

extension PostgresPool {
  /// How many grants of an app are open, or are to come, of each tier that its configuration does not have.
  func grantsWithoutTier(in app: App, at instant: Date) async throws -> [(tier: String, count: Int)] {
    try await query(GrantRows.withoutTier(in: app, at: instant)).map {
      (tier: try $0.decode(0), count: try $0.decode(1))
    }
  }
}

import FoundationEssentials
import Postgres
import Subscriptions

/// The table `free_access`, and the subscriptions that it concerns.
enum FreeAccessRows {
  /// - Returns: no row where it is on already.
  static func open(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    INSERT INTO free_access (bundle_id, starts_at, started_by, reason)
    VALUES (\(app.bundleID), \(instant), \(author.by), \(author.reason))
    ON CONFLICT (bundle_id) WHERE ends_at IS NULL DO NOTHING RETURNING id
    """
  }

  /// - Returns: no row where it is off already.
  static func close(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE free_access SET ends_at = greatest(starts_at, \(instant)), ended_by = \(author.by)
    WHERE bundle_id = \(app.bundleID) AND ends_at IS NULL RETURNING id
    """
  }

  /// Since when it is as it is.
  static func latest(_ app: App, isOn: Bool) -> Query {
    """
    SELECT CASE WHEN \(isOn) THEN max(starts_at) ELSE max(ends_at) END FROM free_access
    WHERE bundle_id = \(app.bundleID)
    """
  }

  /// Free times that are over and after which subscriptions may still be to be judged again.
  static let unfollowed: Query = """
    SELECT id, bundle_id, starts_at, ends_at FROM free_access
    WHERE ends_at IS NOT NULL AND followed_at IS NULL
    """

  /// Has the sweep judge again whose own grace may have stood still: the paid time ended before free time did, and
  /// not so long before it that the grace was over.
  /// - Parameter reach: the longest time between the end of the paid time and that of its grace.
  /// - Returns: a row for each.
  static func markStoodStill(
    bundleID: String, from start: Date, until end: Date, reach: TimeInterval, limit: Int
  ) -> Query {
    """
    UPDATE subscriptions SET next_change_at = \(end)
    WHERE original_transaction_id IN (
      SELECT original_transaction_id FROM subscriptions
      WHERE bundle_id = \(bundleID) AND expiry_date > \(start - reach) AND expiry_date <= \(end)
        AND revoked_at IS NULL AND updated_at <= \(end)
        AND (next_change_at IS NULL OR next_change_at > \(end))
      LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING original_transaction_id
    """
  }

  static func setFollowed(_ id: UUID, at instant: Date) -> Query {
    "UPDATE free_access SET followed_at = \(instant) WHERE id = \(id)"
  }
}

import Foundation
import Postgres
import Subscriptions

/// Statements on the table `free_access`, and on the subscriptions that it affects.
enum FreeAccessRows {
  /// Returns no row if free access is on already.
  static func open(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    INSERT INTO free_access (bundle_id, starts_at, started_by, reason)
    VALUES (\(app.bundleID), \(instant), \(author.by), \(author.reason))
    ON CONFLICT (bundle_id) WHERE ends_at IS NULL DO NOTHING RETURNING id
    """
  }

  /// Returns no row if free access is off already.
  static func close(_ app: App, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE free_access SET ends_at = greatest(starts_at, \(instant)), ended_by = \(author.by)
    WHERE bundle_id = \(app.bundleID) AND ends_at IS NULL RETURNING id
    """
  }

  /// When free access was last switched on or off (`since`).
  static func latest(_ app: App, isOn: Bool) -> Query {
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

  /// Makes subscriptions due for the expiry sweep whose app grace may have been suspended: the paid period ended before the
  /// period of free access did, and its grace had not ended before that.
  /// - Parameter reach: the longest time between the end of a paid period and the end of its grace.
  static func makeDue(
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

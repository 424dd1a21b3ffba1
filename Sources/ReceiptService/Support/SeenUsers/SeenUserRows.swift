import Foundation
import Postgres
import Subscriptions

/// When valid access tokens of a user came.
struct SeenTimes: Sendable {
  var firstAt: Date
  /// To the day.
  var lastAt: Date

  /// Decodes a row of ``SeenUserRows/select(_:of:)``.
  init(_ row: Row) throws {
    firstAt = try row.decode("first_seen_at")
    lastAt = try row.decode("last_seen_at")
  }
}

/// The table `seen_users`.
enum SeenUserRows {
  /// Adds users, and writes the time of those that were not seen since the beginning of the day. Notes from before an erasure,
  /// or from the minute after it, are dropped: one of them may be of the erased customer, and no list of erased ids exists.
  ///
  /// An erasure locks the table, so this statement sees its record or ran before its deletion. The row of the response has the
  /// number of added users, and until when notes were dropped.
  static func write(_ seen: [SeenUsers.Sighting], from day: Day, mostNew: Int) -> Query {
    """
    WITH erased AS (
      SELECT max(at) + interval '1 minute' AS until FROM support_actions WHERE action = 'erase-customer'
    ), sent AS (
      SELECT * FROM unnest(\(seen.map(\.user))::uuid[], \(seen.map(\.bundleID))::text[], \(seen.map(\.at))::timestamptz[])
        AS note (user_id, bundle_id, at)
      WHERE coalesce(at > (SELECT until FROM erased), true)
    ), known AS (
      SELECT user_id, bundle_id, sent.at FROM seen_users JOIN sent USING (user_id, bundle_id)
      WHERE last_seen_at < \(day.start) ORDER BY user_id, bundle_id FOR UPDATE OF seen_users SKIP LOCKED
    ), seen_again AS (
      UPDATE seen_users SET last_seen_at = known.at FROM known
      WHERE seen_users.user_id = known.user_id AND seen_users.bundle_id = known.bundle_id
    ), added AS (
      INSERT INTO seen_users (user_id, bundle_id, first_seen_at, last_seen_at)
      SELECT user_id, bundle_id, min(at), max(at) FROM sent
      WHERE NOT EXISTS (
        SELECT FROM seen_users s WHERE s.user_id = sent.user_id AND s.bundle_id = sent.bundle_id)
      GROUP BY user_id, bundle_id ORDER BY user_id, bundle_id LIMIT \(mostNew)
      ON CONFLICT DO NOTHING RETURNING 1
    )
    SELECT (SELECT count(*) FROM added) AS added, until AS erased_until FROM erased
    """
  }

  /// When a user of an app was seen.
  static func select(_ customer: Customer, of bundleID: String) -> Query {
    """
    SELECT first_seen_at, last_seen_at FROM seen_users
    WHERE user_id = \(customer.userID)::uuid AND bundle_id = \(bundleID)
    """
  }

  /// Deletes at most `limit` users that were not seen since an instant.
  static func delete(before instant: Date, limit: Int) -> Query {
    """
    DELETE FROM seen_users
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM seen_users WHERE last_seen_at < \(instant) LIMIT \(limit)))
    """
  }
}

import Foundation
import Logging
import Platform
import Postgres
import Requests
import Subscriptions
import Synchronization
import Text
import Work

/// Keeps which users' access tokens were valid, for support: a user without a purchase is known, and not 'never seen'.
///
/// A request only notes the user in memory, once a day. A job writes the notes to the table `seen_users`, in batches.
/// Beyond the limits a user is noted by a later request.
package final class SeenUsers: Sendable {
  /// The number of users that wait for the next write.
  static let capacity = 1_000
  /// The number of users that are remembered as written, so that their requests of that day write nothing.
  static let memory = 50_000
  /// The number of new users that a server adds in a day. Only a valid token of the issuer makes a user.
  static let newPerDay = 200_000
  /// For how long a user is kept after the last request.
  package static let lifetime: TimeInterval = 395 * 86_400

  /// A user of an app, and when the valid token came.
  struct Sighting: Sendable {
    var user: UUID
    var bundleID: String
    var at: Date
  }

  private struct Key: Hashable {
    var user: UUID
    var bundleID: String
  }

  private struct Notes {
    var day: Day
    /// The users of the day that wait or are written.
    var noted: Set<Key> = []
    var waiting: [Sighting] = []
    /// The number of users that this server has added on the day.
    var added = 0
  }

  private let pool: PostgresPool
  private let clock: ServiceClock
  private let notes: Mutex<Notes>

  package init(pool: PostgresPool, clock: ServiceClock) {
    self.pool = pool
    self.clock = clock
    notes = Mutex(Notes(day: Day(of: clock.now())))
  }

  /// Notes a user whose access token is valid for an app.
  package func note(_ user: UUID, of bundleID: String) {
    let instant = clock.now()
    let day = Day(of: instant)
    notes.withLock { notes in
      if notes.day != day {
        notes.day = day
        notes.noted = []
        notes.added = 0
      }
      guard notes.waiting.count < Self.capacity else { return }
      if notes.noted.count >= Self.memory { notes.noted = [] }
      guard notes.noted.insert(Key(user: user, bundleID: bundleID)).inserted else { return }
      notes.waiting.append(Sighting(user: user, bundleID: bundleID, at: instant))
    }
  }

  /// Writes the notes every two seconds.
  package var job: BackgroundJob {
    BackgroundJob("seen users", every: .seconds(2), retryEvery: .seconds(10)) { try await self.flush() }
  }

  /// Writes the notes in one statement. While the database is unavailable, they stay.
  package func flush() async throws {
    let (batch, room) = notes.withLock { notes in
      defer { notes.waiting = [] }
      return (notes.waiting, max(0, Self.newPerDay - notes.added))
    }
    guard let last = batch.last else { return }
    do {
      let rows = try await pool.query(
        SeenUserRows.write(batch, from: Day(of: last.at), mostNew: room))
      guard let row = rows.first else { return }
      let added = try row.decode("added", as: Int.self)
      let erasedUntil = try row.decode("erased_until", as: Date?.self)
      notes.withLock { notes in
        notes.added += added
        guard let erasedUntil else { return }
        // They were not written, so the next request notes them again.
        for sighting in batch where sighting.at <= erasedUntil {
          notes.noted.remove(Key(user: sighting.user, bundleID: sighting.bundleID))
        }
      }
    } catch let error as PostgresError where error.isAnsweredUnavailable {
      notes.withLock { notes in
        let waiting = batch + notes.waiting
        notes.waiting = Array(waiting.prefix(Self.capacity))
        for dropped in waiting.dropFirst(Self.capacity) {
          notes.noted.remove(Key(user: dropped.user, bundleID: dropped.bundleID))
        }
      }
      throw error
    }
  }
}

/// When valid access tokens of a user came.
package struct SeenTimes: Sendable {
  package var firstAt: Date
  /// To the day.
  package var lastAt: Date

  /// Decodes a row of ``SeenUserRows/select(_:of:)``.
  package init(_ row: Row) throws {
    firstAt = try row.decode("first_seen_at")
    lastAt = try row.decode("last_seen_at")
  }
}

/// The table `seen_users`.
package enum SeenUserRows {
  /// For an erasure: servers that write seen users wait for its record (``write(_:from:mostNew:)``), and so do other
  /// erasures, each of which may take seconds.
  package static let lockTable: [Query] = [
    """
    SELECT set_config('receiptd.lock_timeout', current_setting('lock_timeout'), true),
      set_config('lock_timeout', '30s', true)
    """,
    "LOCK TABLE seen_users IN SHARE ROW EXCLUSIVE MODE",
    "SELECT set_config('lock_timeout', current_setting('receiptd.lock_timeout'), true)",
  ]

  /// Adds users, and writes the time of those that were not seen since the beginning of the day. Notes from before an
  /// erasure, or from the minute after it, are dropped: one of them may be of the erased customer, and no list of
  /// erased ids exists.
  ///
  /// An erasure locks the table, so this statement sees its record or ran before its deletion. The row of the response
  /// has the number of added users, and until when notes were dropped.
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
  package static func select(_ customer: Customer, of bundleID: String) -> Query {
    """
    SELECT first_seen_at, last_seen_at FROM seen_users
    WHERE user_id = \(customer.userID)::uuid AND bundle_id = \(bundleID)
    """
  }

  /// Deletes at most `limit` users that were not seen since an instant.
  package static func delete(before instant: Date, limit: Int) -> Query {
    """
    DELETE FROM seen_users
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM seen_users WHERE last_seen_at < \(instant) LIMIT \(limit)))
    """
  }
}

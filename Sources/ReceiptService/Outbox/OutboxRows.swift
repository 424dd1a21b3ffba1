import Foundation
import Postgres

/// The queries on outbox rows of premium statuses. A row is written in the transaction that changes the status.
enum OutboxRows {
  /// The destination of premium statuses that could not be written to the app's own tables.
  static let profiles = "profiles"

  /// Adds rows for users whose status must be written again. A user with a waiting row gets no second one.
  static func insertProfiles(_ users: [UUID], at instant: Date) -> Query {
    """
    INSERT INTO outbox (destination, key, payload, created_at, next_attempt_at)
    SELECT \(profiles)::text, waiting.key, '{}', \(instant)::timestamptz,
      \(instant)::timestamptz + interval '1 second'
    FROM unnest(\(users.map { $0.uuidString.lowercased() })::text[]) AS waiting (key)
    WHERE NOT EXISTS (
      SELECT FROM outbox WHERE destination = \(profiles) AND outbox.key = waiting.key
        AND done_at IS NULL AND dead_at IS NULL)
    """
  }

  /// The due rows of a destination, locked until the transaction ends.
  static func due(for destination: String, at instant: Date, limit: Int) -> Query {
    """
    SELECT id, key, attempts FROM outbox
    WHERE destination = \(destination) AND next_attempt_at <= \(instant)
      AND done_at IS NULL AND dead_at IS NULL
    ORDER BY next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
    """
  }

  /// Deletes a delivered row, because the app's own table has the status.
  static func done(_ id: Int64) -> Query { "DELETE FROM outbox WHERE id = \(id)" }

  /// Deletes events and forwarded notifications that were given up, or that wait, for so long.
  static func deleteUndelivered(before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM outbox WHERE id IN (
      SELECT id FROM outbox
      WHERE done_at IS NULL AND created_at < \(oldest) AND destination IN ('event', 'notification')
      ORDER BY created_at LIMIT \(limit))
    """
  }

  static func postpone(_ id: Int64, until next: Date, because reason: String) -> Query {
    """
    UPDATE outbox SET next_attempt_at = \(next), attempts = attempts + 1, last_error = \(reason)
    WHERE id = \(id)
    """
  }
}

import FoundationEssentials
import Postgres

/// The table `outbox`: what is to be written elsewhere, kept in the commit that it follows from.
enum OutboxRows {
  /// The destination of premium statuses that the app's own tables did not take.
  static let profiles = "profiles"

  /// Notes users whose status is to be written again. A user who waits already is not noted twice.
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

  /// What is due for a destination; nobody else gets it while the transaction runs.
  static func due(for destination: String, at instant: Date, limit: Int) -> Query {
    """
    SELECT id, key, attempts FROM outbox
    WHERE destination = \(destination) AND next_attempt_at <= \(instant)
      AND done_at IS NULL AND dead_at IS NULL
    ORDER BY next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
    """
  }

  /// What is done has no more to tell: the table it was written to does.
  static func done(_ id: Int64) -> Query { "DELETE FROM outbox WHERE id = \(id)" }

  static func postpone(_ id: Int64, until next: Date, because reason: String) -> Query {
    """
    UPDATE outbox SET next_attempt_at = \(next), attempts = attempts + 1, last_error = \(reason)
    WHERE id = \(id)
    """
  }
}

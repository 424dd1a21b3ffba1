import FoundationEssentials
import Postgres
import Subscriptions

/// One row of the view `support_outbox`.
public struct OutboxEntry: Sendable, Hashable {
  /// The row's identity, for requeueing.
  public var id: Int64
  /// `cloudkit`, `webhook` or `profiles`.
  public var destination: String
  /// The app; `nil` for `profiles`.
  public var bundleID: String?
  /// A webhook's address without its query.
  public var endpoint: String
  /// The user's or the device's id.
  public var customer: String
  /// `waiting`, `under way`, `delivered`, `disabled` or `dead`.
  public var state: String
  /// When it came, or came anew.
  public var createdAt: Date
  /// How often it was tried since.
  public var attempts: Int
  /// When it is tried next.
  public var nextAttemptAt: Date?
  /// What the last attempt met, for this customer or at the place as a whole.
  public var error: String?
}

extension Outbox {
  /// What is not delivered: first what needs somebody (dead, disabled), then what waits; the oldest first.
  /// - Parameter customer: only of this user or device; then also what was delivered.
  func list(customer: String? = nil, limit: Int = 100) async throws -> [OutboxEntry] {
    let query: Query =
      if let customer {
        """
        \(unescaped: Self.columns) WHERE customer = \(customer)
        ORDER BY state NOT IN ('dead', 'disabled'), created_at, id LIMIT \(limit)
        """
      } else {
        """
        \(unescaped: Self.columns) WHERE done_at IS NULL
        ORDER BY state NOT IN ('dead', 'disabled'), created_at, id LIMIT \(limit)
        """
      }
    return try await pool.query(query).map {
      OutboxEntry(
        id: try $0.decode(0), destination: try $0.decode(1), bundleID: try $0.decode(2),
        endpoint: try $0.decode(3), customer: try $0.decode(4), state: try $0.decode(5),
        createdAt: try $0.decode(6), attempts: try $0.decode(7), nextAttemptAt: try $0.decode(8),
        error: try $0.decode(9))
    }
  }

  private static let columns: StaticString = """
    SELECT id, destination, bundle_id, endpoint, customer, state, created_at, attempts, next_attempt_at,
      coalesce(last_error, place_error)
    FROM support_outbox
    """

  /// Has a row delivered again, dead, waiting or delivered, and its place opened again where it was disabled. Written
  /// down in `support_actions`.
  /// - Returns: whether there is such a row.
  func requeue(id: Int64, by author: String, reason: String) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let rows = try await connection.query(OutboxRows.requeue(id, at: instant))
      guard let row = rows.first else { return false }
      // Only users have rows of no app in particular: their premium statuses.
      let bundleID = try row.decode(0, as: String?.self)
      let kind: CustomerKind? = if let bundleID { catalog[bundleID]?.customer } else { .user }
      _ = try await connection.pipeline([
        OutboxRows.reopenLane(of: id),
        OutboxRows.insertAction(id, kind: kind, by: author, reason: reason, at: instant),
      ])
      return true
    }
  }

  /// Has everything delivered again that was given up, of one app or of all.
  /// - Returns: how many rows.
  func requeueDead(bundleID: String? = nil, by author: String, reason: String) async throws -> Int {
    let dead = try await pool.query(OutboxRows.dead(of: bundleID))
    var count = 0
    for row in dead where try await requeue(id: row.decode(0), by: author, reason: reason) { count += 1 }
    return count
  }
}

extension OutboxRows {
  static func requeue(_ id: Int64, at instant: Date) -> Query {
    """
    UPDATE outbox SET change = nextval('outbox_changes'), created_at = \(instant), attempts = 0,
      next_attempt_at = \(instant), last_error = NULL, done_at = NULL, dead_at = NULL, delivered_digest = NULL,
      attempted_digest = NULL
    WHERE id = \(id) RETURNING bundle_id
    """
  }

  static func reopenLane(of id: Int64) -> Query {
    """
    UPDATE outbox_lanes AS lane SET disabled_at = NULL, paused_until = NULL
    FROM outbox
    WHERE outbox.id = \(id) AND lane.destination = outbox.destination AND lane.bundle_id = outbox.bundle_id
      AND lane.endpoint = outbox.endpoint
    """
  }

  static func insertAction(
    _ id: Int64, kind: CustomerKind?, by author: String, reason: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, to_customer, customer_kind, by, reason, details, at)
    SELECT 'requeue', bundle_id, key, \(kind?.rawValue)::text, \(author), \(reason),
      jsonb_build_object('outbox', id, 'destination', destination, 'endpoint', endpoint), \(instant)
    FROM outbox WHERE id = \(id)
    """
  }

  static func dead(of bundleID: String?) -> Query {
    """
    SELECT id FROM outbox WHERE done_at IS NULL AND dead_at IS NOT NULL AND (\(bundleID)::text IS NULL OR bundle_id = \(bundleID))
    ORDER BY id
    """
  }
}

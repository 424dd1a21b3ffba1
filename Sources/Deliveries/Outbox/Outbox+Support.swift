import Actions
import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

/// One row of the view `support_outbox`.
package struct OutboxEntry: Sendable, Hashable {
  /// The id of the row, for requeueing.
  package var id: Int64
  /// `cloudkit`, `webhook`, `event`, `notification` or `profiles`.
  package var destination: String
  /// The app; `nil` for `profiles`.
  package var bundleID: String?
  /// The address without its query.
  package var endpoint: String
  /// The user's or the device's id; `nil` for a notification, or an event of a purchase without an owner.
  package var customer: String?
  /// `waiting`, `under way`, `delivered`, `disabled` or `dead`.
  package var state: String
  /// The time of the latest change.
  package var createdAt: Date
  /// The number of attempts since.
  package var attempts: Int
  /// The time of the next attempt.
  package var nextAttemptAt: Date?
  /// The error of the last attempt, for this customer or for the destination as a whole.
  package var error: String?

  init(_ row: Row) throws {
    id = try row.decode("id")
    destination = try row.decode("destination")
    bundleID = try row.decode("bundle_id")
    endpoint = try row.decode("endpoint")
    customer = try row.decode("customer")
    state = try row.decode("state")
    createdAt = try row.decode("created_at")
    attempts = try row.decode("attempts")
    nextAttemptAt = try row.decode("next_attempt_at")
    error = try row.decode("error")
  }
}

extension Outbox {
  /// The undelivered rows: first those that need an operator (dead, disabled), then those that wait; the oldest first.
  /// - Parameter customer: the only user or device to list, then with delivered rows.
  package func list(customer: String? = nil, limit: Int = 100) async throws -> [OutboxEntry] {
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
    return try await pool.query(query).map(OutboxEntry.init)
  }

  private static let columns: StaticString = """
    SELECT id, destination, bundle_id, endpoint, customer, state, created_at, attempts, next_attempt_at,
      coalesce(last_error, place_error) AS error
    FROM support_outbox
    """

  /// Makes a row due now in whatever state it is, and reopens its destination. Recorded in `support_actions`.
  /// - Returns: whether there is such a row.
  fileprivate func requeue(id: Int64, by author: SupportAuthor, isDryRun: Bool) async throws -> Bool {
    let instant = clock.now()
    return try await pool.withTransaction(isDryRun: isDryRun) { connection in
      let rows = try await connection.query(OutboxRows.requeue(id, at: instant))
      guard let row = rows.first else { return false }
      // A row without an app is the premium status of a user.
      let bundleID = try row.decode("bundle_id", as: String?.self)
      let kind: CustomerKind? = if let bundleID { catalog[bundleID]?.customer } else { .user }
      _ = try await connection.pipeline([
        OutboxRows.reopenDestination(of: id),
        OutboxRows.insertAction(id, kind: kind, by: author, at: instant),
      ])
      return true
    }
  }

  /// Makes all rows of an app due that were given up.
  /// - Returns: the number of rows.
  fileprivate func requeueDead(of app: App, by author: SupportAuthor, isDryRun: Bool) async throws -> Int {
    let dead = try await pool.query(OutboxRows.dead(of: app.bundleID))
    var count = 0
    for row in dead where try await requeue(id: row.decode("id"), by: author, isDryRun: isDryRun) {
      count += 1
    }
    return count
  }
}

/// Makes one row of the outbox due now, in whatever state it is, and reopens its destination if it was disabled; or all rows
/// of an app that were given up.
package struct RequeueRequest: SupportRequest {
  package static let operation = SupportOperation.requeue

  /// The id in `support_outbox`.
  var outbox: Int64?
  /// The app.
  var bundleID: String?

  package init(outbox: Int64) {
    self.outbox = outbox
  }

  package init(bundleID: String) {
    self.bundleID = bundleID
  }

  package func run(at desk: Outbox, by author: SupportAuthor, isDryRun: Bool) async throws -> RequeueResult {
    switch (outbox, bundleID) {
    case (let id?, nil):
      guard try await desk.requeue(id: id, by: author, isDryRun: isDryRun) else {
        throw SupportRefusal.notFound("The outbox has no row \(id).")
      }
      return RequeueResult(requeued: 1, isDryRun: isDryRun)
    case (nil, let bundleID?):
      let app = try desk.catalog.app(named: bundleID)
      return RequeueResult(
        requeued: try await desk.requeueDead(of: app, by: author, isDryRun: isDryRun), isDryRun: isDryRun)
    default: throw SupportRefusal.invalid("Exactly one of 'outbox' and 'bundleID' is needed.")
    }
  }
}

extension OutboxRows {
  static func requeue(_ id: Int64, at instant: Date) -> Query {
    let reopened: Query = """
      , change = nextval('outbox_changes'), created_at = \(instant), done_at = NULL, dead_at = NULL,
        delivered_digest = NULL, attempted_digest = NULL
      """
    return "\(DeliveryRows.table.requeue(id, at: instant, setting: reopened)) RETURNING bundle_id"
  }

  static func reopenDestination(of id: Int64) -> Query {
    """
    UPDATE outbox_destinations AS known SET disabled_at = NULL, paused_until = NULL
    FROM outbox
    WHERE outbox.id = \(id) AND known.destination = outbox.destination AND known.bundle_id = outbox.bundle_id
      AND known.endpoint = outbox.endpoint
    """
  }

  /// Records that support queued a row again. The record stays, so it does not name a customer who was erased.
  static func insertAction(
    _ id: Int64, kind: CustomerKind?, by author: SupportAuthor, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, to_customer, customer_kind, by, actor, person_id, reason, details, at)
    SELECT 'requeue', bundle_id, CASE WHEN names_customer THEN key END,
      CASE WHEN names_customer THEN \(kind?.rawValue)::text END,
      \(author.by), \(author.actor.kind), \(author.actor.personID)::bigint, \(author.reason),
      jsonb_build_object('outbox', id, 'destination', destination, 'endpoint', endpoint)
        || CASE WHEN is_state THEN '{}' ELSE jsonb_build_object('key', key) END, \(instant)
    FROM outbox, LATERAL (SELECT destination NOT IN ('event', 'notification') AS is_state) AS kind,
      LATERAL (SELECT is_state AND NOT payload ? 'erased' AS names_customer) AS customer
    WHERE id = \(id)
    """
  }

  static func dead(of bundleID: String) -> Query {
    """
    SELECT id FROM outbox WHERE done_at IS NULL AND dead_at IS NOT NULL AND bundle_id = \(bundleID) ORDER BY id
    """
  }
}

/// The result of `receiptd requeue`.
package struct RequeueResult: Encodable, Sendable, CustomStringConvertible {
  /// The number of rows of the outbox.
  package let requeued: Int
  /// Whether nothing was written.
  let isDryRun: Bool

  /// One line.
  package var description: String { "\(requeued) \(requeued == 1 ? "delivery" : "deliveries") requeued" }
}

import Foundation
import Postgres

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
}

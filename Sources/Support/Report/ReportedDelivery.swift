import Customers
import Foundation
import HTTP
import JSON
import Postgres
import Subscriptions
import Text

/// A delivery to another system or table about a customer, in a report; a row of the view `support_outbox`.
package struct ReportedDelivery: Sendable {
  /// The word of `support_outbox.destination`: `cloudkit`, `event` (a webhook), `profiles`, ….
  package var destination: String
  /// The address of a webhook.
  package var endpoint: String?
  /// The type of a lifecycle event; `nil` for a delivery of the customer's state.
  package var event: String?
  /// `waiting`, `under way`, `delivered`, `disabled` or `dead`.
  package var state: String
  package var createdAt: Date
  package var attempts: Int
  /// `nil` if no attempt follows.
  package var nextAttemptAt: Date?
  /// The error of the last attempt for this customer, or else of the destination as a whole.
  package var lastError: String?
  package var deliveredAt: Date?

  /// The deliveries about a customer: those that are not delivered, then the latest of the others. The index `outbox_key`
  /// finds the states, that of the lifecycle events' customers the events.
  static func select(of customer: Customer, bundleID: String, limit: Int) -> Postgres.Query {
    """
    SELECT destination, nullif(endpoint, '') AS endpoint, event, state, created_at, attempts, next_attempt_at,
      coalesce(last_error, place_error) AS last_error, done_at
    FROM support_outbox
    WHERE customer = \(customer.id) AND coalesce(bundle_id, '') IN (\(bundleID), '')
    ORDER BY done_at IS NOT NULL, created_at DESC, id DESC LIMIT \(limit)
    """
  }

  /// - Parameter row: of ``select(of:bundleID:limit:)``.
  init(_ row: Row) throws {
    destination = try row.decode("destination")
    endpoint = try row.decode("endpoint")
    event = try row.decode("event")
    state = try row.decode("state")
    createdAt = try row.decode("created_at")
    attempts = try row.decode("attempts")
    nextAttemptAt = try row.decode("next_attempt_at")
    lastError = try row.decode("last_error")
    deliveredAt = try row.decode("done_at")
  }

  /// Whether the other side does not have it and something stands in the way.
  package var isInTrouble: Bool {
    ["dead", "disabled"].contains(state) || deliveredAt == nil && lastError != nil
  }

  /// What is sent, in words.
  package var what: String {
    switch (destination, event) {
    case ("cloudkit", _): "CloudKit record"
    case ("profiles", _): "status in the app's own table"
    case (_, let event?): "webhook \(event)"
    case (let destination, nil): destination
    }
  }

  func write(to output: inout TerminalText) {
    let when =
      deliveredAt.map { " \($0.rfc3339)" } ?? nextAttemptAt.map { ", next attempt \($0.rfc3339)" } ?? ""
    output.line("\(what): \(state)\(when)")
    if deliveredAt == nil, let lastError { output.line(lastError, indent: 4) }
  }
}

extension ReportedDelivery: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("attempts", attempts)
      json.member("createdAt", createdAt)
      json.member("deliveredAt", deliveredAt)
      json.member("destination", destination)
      json.member("endpoint", endpoint)
      json.member("event", event)
      json.member("lastError", deliveredAt == nil ? lastError : nil)
      json.member("nextAttemptAt", nextAttemptAt)
      json.member("state", state)
    }
  }
}

import Configuration
import Foundation
import Identifiers
import Postgres
import Subscriptions

/// A customer of one app whose state may have changed.
struct CustomerChange: Sendable, Hashable {
  var bundleID: String
  var customer: Customer
}

/// Adds outbox rows for customers whose state may have changed, for CloudKit and webhooks.
///
/// Every change of a customer's access runs these queries in its own transaction. A delivery reads the state when it
/// sends it, and does not send a state that the destination has. So a needless row does no harm; a row that comes late or
/// in another transaction does.
enum CustomerChanges {
  /// Adds one row for each customer and each destination of its app. An existing row is reset, so that it is due again,
  /// also if it is being sent, was delivered, or was given up.
  /// - Parameter isErased: whether to tell that the customers were erased, to all webhooks of their apps. If one comes back
  ///   before that is delivered, the state follows it.
  /// - Returns: `nil` if no app of these customers has a destination.
  static func enqueue(
    _ changes: some Sequence<CustomerChange>, in catalog: AppCatalog, isErased: Bool = false, at instant: Date
  ) -> Query? {
    var targets: [(destination: OutboxDestination, key: String)] = []
    for change in Set(changes) {
      guard let app = catalog[change.bundleID], app.customer == change.customer.kind else { continue }
      for destination in isErased ? app.erasureDestinations : app.stateDestinations {
        targets.append((destination, change.customer.id))
      }
    }
    guard !targets.isEmpty else { return nil }
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT change.*, CASE WHEN \(isErased) THEN '{"erased": true}' ELSE '{}' END::jsonb, \(instant)::timestamptz,
        \(instant)::timestamptz
      FROM \(rows: targets.count)
        \(each: targets.map(\.destination.kind.rawValue)), \(each: targets.map(\.key)),
        \(each: targets.map(\.destination.bundleID)), \(each: targets.map(\.destination.endpoint)))) AS change
      ORDER BY 1, 2, 3, 4
      \(unescaped: resetExisting)
      """
  }

  /// Adds rows for every customer of an app that has a purchase, a grant or a trial, for example when free access begins. The
  /// pseudonyms of erased customers are none.
  /// - Parameter destination: the only destination to add rows for; `nil` for all.
  /// - Returns: `nil` if the app has no destination.
  static func enqueueEveryone(of app: App, for destination: OutboxDestination? = nil, at instant: Date)
    -> Query?
  {
    let destinations = destination.map { [$0] } ?? app.stateDestinations
    guard !destinations.isEmpty else { return nil }
    let isUser = app.customer == .user
    let id = isUser ? "user_id::text" : "device_id"
    // Only devices have trials and shared purchases.
    let sources = ["subscriptions", "grants"] + (isUser ? [] : ["trials", "purchase_devices"])
    let customers = sources.map { "SELECT \(id), bundle_id FROM \($0)" }.joined(separator: " UNION ")
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT place.destination, customer.id, customer.bundle_id, place.endpoint, '{}', \(instant)::timestamptz,
        \(instant)::timestamptz
      FROM unnest(\(destinations.map(\.kind.rawValue))::text[], \(destinations.map(\.endpoint))::text[])
          AS place (destination, endpoint),
        (\(unescaped: customers)) AS customer (id, bundle_id)
      WHERE customer.bundle_id = \(app.bundleID) AND customer.id IS NOT NULL
        AND NOT EXISTS (
          SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = customer.id)
      ORDER BY 1, 2, 3, 4
      \(unescaped: resetExisting)
      """
  }

  /// Rows are written and locked in the order of the key everywhere, so that transactions cannot deadlock.
  private static let resetExisting: StaticString = """
    ON CONFLICT (destination, key, bundle_id, endpoint) DO UPDATE SET
      change = nextval('outbox_changes'), created_at = excluded.created_at, attempts = 0,
      next_attempt_at = excluded.next_attempt_at, last_error = NULL, done_at = NULL, dead_at = NULL,
      attempted_digest = NULL,
      payload = CASE WHEN outbox.payload ? 'erased' AND NOT excluded.payload ? 'erased'
        THEN outbox.payload || '{"returned": true}' ELSE excluded.payload END
    """
}

extension Customer {
  /// The customer of an app with this id; `nil` if the id is not valid.
  init?(id: String, of app: App) {
    switch app.customer {
    case .user:
      guard let user = UUID(rfc9562: id) else { return nil }
      self = .user(user)
    case .device: self = .device(id)
    }
  }
}

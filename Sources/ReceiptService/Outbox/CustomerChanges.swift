import FoundationEssentials
import Identifiers
import Postgres
import Subscriptions

/// A customer of one app whose state may have changed.
struct CustomerChange: Sendable, Hashable {
  var bundleID: String
  var customer: Customer
}

/// Notes customers whose state may have changed, for CloudKit and webhooks.
///
/// Whatever changes what a customer may do runs these queries in its own transaction. What is sent is the state of
/// the moment at which it is sent, and what stands there already is not sent again: so it is right to note
/// a customer too often, and wrong to note one too late or outside of the transaction.
enum CustomerChanges {
  /// Notes customers, each once for every place that its app's configuration names. Whoever waits already is not
  /// there twice, but comes anew: also if an older state is on its way, if it was delivered, or was given up.
  /// - Returns: `nil` where no place wants to know.
  static func enqueue(
    _ changes: some Sequence<CustomerChange>, in catalog: AppCatalog, at instant: Date
  ) -> Query? {
    var places: [(lane: OutboxLane, key: String)] = []
    for change in Set(changes) {
      guard let app = catalog[change.bundleID], app.customer == change.customer.kind else { continue }
      for lane in app.outboxLanes { places.append((lane, change.customer.id)) }
    }
    guard !places.isEmpty else { return nil }
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT told.*, '{}', \(instant)::timestamptz, \(instant)::timestamptz
      FROM \(rows: places.count)
        \(each: places.map(\.lane.destination.rawValue)), \(each: places.map(\.key)),
        \(each: places.map(\.lane.bundleID)), \(each: places.map(\.lane.endpoint)))) AS told
      ORDER BY 1, 2, 3, 4
      \(unescaped: comeAnew)
      """
  }

  /// Notes everybody who has anything of the app: for what changes all of them, such as free access.
  /// - Parameter lane: only for this place.
  /// - Returns: `nil` where no place wants to know.
  static func enqueueEveryone(of app: App, for lane: OutboxLane? = nil, at instant: Date) -> Query? {
    let lanes = lane.map { [$0] } ?? app.outboxLanes
    guard !lanes.isEmpty else { return nil }
    let isUser = app.customer == .user
    let id = isUser ? "user_id::text" : "device_id"
    // Trials and shared purchases are devices'.
    let sources = ["subscriptions", "grants"] + (isUser ? [] : ["trials", "purchase_devices"])
    let customers = sources.map { "SELECT \(id), bundle_id FROM \($0)" }.joined(separator: " UNION ")
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT place.destination, customer.id, customer.bundle_id, place.endpoint, '{}', \(instant)::timestamptz,
        \(instant)::timestamptz
      FROM unnest(\(lanes.map(\.destination.rawValue))::text[], \(lanes.map(\.endpoint))::text[])
          AS place (destination, endpoint),
        (\(unescaped: customers)) AS customer (id, bundle_id)
      WHERE customer.bundle_id = \(app.bundleID) AND customer.id IS NOT NULL
      ORDER BY 1, 2, 3, 4
      \(unescaped: comeAnew)
      """
  }

  /// In the order of the key, here and wherever rows are locked, so that nobody waits in a circle.
  private static let comeAnew: StaticString = """
    ON CONFLICT (destination, key, bundle_id, endpoint) DO UPDATE SET
      change = nextval('outbox_changes'), created_at = excluded.created_at, attempts = 0,
      next_attempt_at = excluded.next_attempt_at, last_error = NULL, done_at = NULL, dead_at = NULL,
      attempted_digest = NULL
    """
}

extension Customer {
  var kind: CustomerKind {
    switch self {
    case .user: .user
    case .device: .device
    }
  }

  /// The customer of an app with this id; `nil` if it is none.
  init?(id: String, of app: App) {
    switch app.customer {
    case .user:
      guard let user = UUID(rfc9562: id) else { return nil }
      self = .user(user)
    case .device: self = .device(id)
    }
  }
}

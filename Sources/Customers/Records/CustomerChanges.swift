import Configuration
import Foundation
import Identifiers
import Postgres
import Subscriptions

/// A customer of one app whose state may have changed.
package struct CustomerChange: Sendable, Hashable {
  package var bundleID: String
  package var customer: Customer

  package init(bundleID: String, customer: Customer) {
    self.bundleID = bundleID
    self.customer = customer
  }
}

/// Adds outbox rows for customers whose state may have changed, for CloudKit and webhooks.
///
/// Every change of a customer's access runs these queries in its own transaction. A delivery reads the state when it
/// sends it, and does not send a state that the destination has. So a needless row does no harm; a row that comes late
/// or in another transaction does.
package enum CustomerChanges {
  /// Adds one row for each customer and each destination of its app, and for the children's devices of a parent's,
  /// which have what it has. An existing row is reset, so that it is due again, also if it is being sent, was
  /// delivered, or was given up. Customers of StoreKit tests in Xcode are left out; see ``told(of:)``.
  /// - Parameter isErased: whether to tell that the customers were erased, to all webhooks of their apps. If one comes
  ///   back before that is delivered, the state follows it.
  /// - Parameter endsPairing: whether a child's device lost a pairing. The row of a device with nothing on record is
  ///   deleted once it is delivered: clients can invent such devices.
  /// - Returns: `nil` if no app of these customers has a destination.
  package static func enqueue(
    _ changes: some Sequence<CustomerChange>, in catalog: AppCatalog, isErased: Bool = false,
    endsPairing: Bool = false, at instant: Date
  ) -> Query? {
    var targets: [(destination: OutboxDestination, key: String)] = []
    for change in Set(changes) {
      guard let app = catalog[change.bundleID], app.customer == change.customer.kind else { continue }
      for destination in isErased ? app.erasureDestinations : app.stateDestinations {
        targets.append((destination, change.customer.id))
      }
    }
    guard !targets.isEmpty else { return nil }
    let parents =
      isErased ? [] : Set(changes.map(\.bundleID)).filter { catalog[$0]?.limitsDevices == true }.sorted()
    let children: Query =
      parents.isEmpty
      ? ""
      : """
      UNION SELECT told.destination, d.child_device_id, told.bundle_id, told.endpoint
      FROM told JOIN devices d ON d.bundle_id = told.bundle_id AND d.device_id = told.key
      WHERE told.bundle_id = ANY(\(parents))
      """
    let apps = isErased ? [] : Set(changes.map(\.bundleID)).compactMap { catalog[$0] }
    let payload: Query = isErased ? "'{\"erased\": true}'" : endsPairing ? lastOfUnused : "'{}'"
    return """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      WITH told (destination, key, bundle_id, endpoint) AS (SELECT change.* FROM \(rows: targets.count)
        \(each: targets.map(\.destination.kind.rawValue)), \(each: targets.map(\.key)),
        \(each: targets.map(\.destination.bundleID)), \(each: targets.map(\.destination.endpoint)))) AS change)
      SELECT change.*, (\(payload))::jsonb, \(instant)::timestamptz, \(instant)::timestamptz
      FROM (SELECT * FROM told \(children)) AS change
      \(told(of: apps))
      ORDER BY 1, 2, 3, 4
      \(unescaped: resetExisting)
      """
  }

  /// The condition on `change` that leaves out customers whose records are of StoreKit tests in Xcode alone: no
  /// destination knows them. A customer, or the parent of a child's device, with any other record is told of, and one
  /// whose state the destination has, whatever is left of the records. Empty without an app that accepts data of Xcode.
  private static func told(of apps: [App]) -> Query {
    let development = apps.filter { $0.environments.contains(.xcode) }.map(\.bundleID).sorted()
    guard !development.isEmpty else { return "" }
    return """
      WHERE NOT change.bundle_id = ANY(\(development))
        OR EXISTS (SELECT FROM outbox known WHERE known.destination = change.destination AND known.key = change.key
          AND known.bundle_id = change.bundle_id AND known.endpoint = change.endpoint AND NOT known.payload ? 'erased')
        OR EXISTS (
          SELECT FROM (SELECT change.key AS id
            UNION ALL SELECT d.device_id FROM devices d
            WHERE d.bundle_id = change.bundle_id AND d.child_device_id = change.key) AS person
          JOIN (SELECT bundle_id, coalesce(user_id::text, device_id) AS id FROM subscriptions
              WHERE environment <> 'Xcode'
            UNION ALL SELECT s.bundle_id, h.device_id FROM purchase_devices h
              JOIN subscriptions s USING (original_transaction_id) WHERE s.environment <> 'Xcode'
            UNION ALL SELECT bundle_id, device_id FROM trials WHERE environment <> 'Xcode'
            UNION ALL SELECT bundle_id, coalesce(user_id::text, device_id) FROM grants WHERE environment <> 'Xcode'
          ) AS record ON record.id = person.id
          WHERE record.bundle_id = change.bundle_id)
      """
  }

  /// The payload of a row that is deleted once it is delivered, where the device of `change` has nothing on record.
  /// During free access it stays: the device is told of the end.
  private static let lastOfUnused: Query = """
    CASE WHEN EXISTS (SELECT FROM subscriptions r WHERE r.device_id = change.key)
      OR EXISTS (SELECT FROM purchase_devices r WHERE r.device_id = change.key AND r.bundle_id = change.bundle_id)
      OR EXISTS (SELECT FROM trials r WHERE r.device_id = change.key AND r.bundle_id = change.bundle_id)
      OR EXISTS (SELECT FROM grants r WHERE r.device_id = change.key AND r.bundle_id = change.bundle_id)
      OR EXISTS (SELECT FROM devices r WHERE r.child_device_id = change.key AND r.bundle_id = change.bundle_id)
      OR EXISTS (SELECT FROM free_access r WHERE r.bundle_id = change.bundle_id AND r.ends_at IS NULL)
      THEN '{}' ELSE '{"last": true}' END
    """

  /// Adds rows for every customer of an app that has a purchase, a grant or a trial, or whose state a destination has,
  /// for example when free access begins. Erased customers are skipped. A transaction for some customers at a time, so
  /// that an app with many of them does not hold their rows.
  /// - Parameter destination: the only destination to add rows for; `nil` for all.
  package static func enqueueEveryone(
    of app: App, for destination: OutboxDestination? = nil, at instant: Date, in pool: PostgresPool
  ) async throws {
    let destinations = destination.map { [$0] } ?? app.stateDestinations
    guard !destinations.isEmpty else { return }
    for source in EveryoneRows.sources(of: app) {
      var last: String?
      while true {
        let ids = try await pool.query(EveryoneRows.page(source, of: app, after: last)).map {
          try $0.decode("id", as: String.self)
        }
        guard let end = ids.last else { break }
        last = end
        _ = try await pool.query(
          EveryoneRows.enqueue(Array(Set(ids)), of: app, for: destinations, at: instant))
        if ids.count < EveryoneRows.batch { break }
      }
    }
  }

  /// Statements that find all customers of an app, some at a time in the order of an index.
  private enum EveryoneRows {
    static let batch = 2_000

    /// Tables with a column of ids. A customer without a record has free access too, and must be told when it ends: the
    /// outbox has the ids of those whose state a destination has.
    static func sources(of app: App) -> [(table: String, column: String, type: String)] {
      let records: [(String, String, String)] =
        app.customer == .user
        ? [("subscriptions", "user_id", "uuid"), ("grants", "user_id", "uuid")]
        : ["subscriptions", "grants", "trials", "purchase_devices"].map { ($0, "device_id", "text") }
      return records + [("outbox", "key", "text")]
    }

    static func page(
      _ source: (table: String, column: String, type: String), of app: App, after last: String?
    ) -> Query {
      let (table, column, type) = source
      let isState =
        table == "outbox" ? "AND destination IN ('cloudkit', 'webhook') AND NOT payload ? 'erased'" : ""
      let follows: Query = last.map { "AND \(unescaped: column) > \($0)::text::\(unescaped: type)" } ?? ""
      return """
        SELECT \(unescaped: column)::text AS id FROM \(unescaped: table)
        WHERE bundle_id = \(app.bundleID) AND \(unescaped: column) IS NOT NULL \(unescaped: isState) \(follows)
        ORDER BY \(unescaped: column) LIMIT \(batch)
        """
    }

    static func enqueue(
      _ ids: [String], of app: App, for destinations: [OutboxDestination], at instant: Date
    ) -> Query {
      """
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT change.*, '{}', \(instant)::timestamptz, \(instant)::timestamptz
      FROM (
        SELECT place.destination, customer.id AS key, \(app.bundleID)::text AS bundle_id, place.endpoint
        FROM unnest(\(destinations.map(\.kind.rawValue))::text[], \(destinations.map(\.endpoint))::text[])
            AS place (destination, endpoint),
          unnest(\(ids)::text[]) AS customer (id)
        WHERE NOT EXISTS (
          SELECT FROM support_actions WHERE action = 'erase-customer' AND to_customer = customer.id)) AS change
      \(told(of: [app]))
      ORDER BY 1, 2, 3, 4
      \(unescaped: resetExisting)
        -- The customer was erased after the page was read.
        WHERE NOT outbox.payload ? 'erased'
      """
    }
  }

  /// Each statement locks rows in the order of the key. An erasure runs two such statements, so an erasure and a delivery
  /// can deadlock. PostgreSQL ends one of the two transactions, and it runs again.
  private static let resetExisting: StaticString = """
    ON CONFLICT (destination, key, bundle_id, endpoint) DO UPDATE SET
      change = nextval('outbox_changes'), created_at = excluded.created_at, attempts = 0,
      next_attempt_at = excluded.next_attempt_at, last_error = NULL, done_at = NULL, dead_at = NULL,
      attempted_digest = NULL,
      payload = CASE WHEN outbox.payload ? 'erased' AND NOT excluded.payload ? 'erased'
        THEN outbox.payload || '{"returned": true}' ELSE excluded.payload END
    """
}

/// A destination of one app: a CloudKit container or a webhook for customers' states, a webhook for lifecycle events,
/// or the server to which notifications are forwarded.
package struct OutboxDestination: Sendable, Hashable {
  /// The values of the column `destination`.
  package enum Kind: String, Sendable {
    case cloudkit, webhook
    /// A webhook that receives lifecycle events.
    case event
    /// The server to which the App Store's notifications are forwarded.
    case notification

    /// Whether a delivered row is deleted. The row of a customer's state stays: it says what the destination has.
    package var deletesDelivered: Bool { self == .event || self == .notification }
  }

  package var kind: Kind
  /// The app.
  package var bundleID: String
  /// ``WebhookEndpoint/name``; empty for CloudKit.
  package var endpoint = ""

  package init(kind: Kind, bundleID: String, endpoint: String = "") {
    self.kind = kind
    self.bundleID = bundleID
    self.endpoint = endpoint
  }
}

extension App {
  /// The destinations of this app's configuration.
  package var outboxDestinations: [OutboxDestination] {
    var destinations = erasureDestinations
    for endpoint in eventEndpoints {
      destinations.append(OutboxDestination(kind: .event, bundleID: bundleID, endpoint: endpoint.name))
    }
    if let forwardedNotifications {
      destinations.append(
        OutboxDestination(kind: .notification, bundleID: bundleID, endpoint: forwardedNotifications.name))
    }
    return destinations
  }

  /// The destinations of customers' states.
  ///
  /// A container without a key is one of them: its rows wait, one for each customer, until the key is configured.
  package var stateDestinations: [OutboxDestination] { erasureDestinations.filter(receivesStates) }

  /// The destinations that are told of an erasure: those of states, and the webhooks that receive lifecycle events
  /// alone, because events name customers too.
  package var erasureDestinations: [OutboxDestination] {
    var destinations = webhooks.map {
      OutboxDestination(kind: .webhook, bundleID: bundleID, endpoint: $0.name)
    }
    if writeTo.contains(.cloudkit) {
      destinations.append(OutboxDestination(kind: .cloudkit, bundleID: bundleID))
    }
    return destinations
  }

  /// Whether a destination receives customers' states.
  package func receivesStates(_ destination: OutboxDestination) -> Bool {
    switch destination.kind {
    case .cloudkit: true
    case .webhook:
      webhooks.contains { $0.name == destination.endpoint && $0.receives(WebhookEndpoint.stateEvent) }
    case .event, .notification: false
    }
  }

  /// The webhooks that receive some type of lifecycle event.
  var eventEndpoints: [WebhookEndpoint] {
    webhooks.filter { endpoint in LifecycleEventType.allCases.contains { endpoint.receives($0.rawValue) } }
  }

  /// Whether lifecycle events are written down: no app pays for events that no webhook receives.
  package var hasLifecycleEvents: Bool {
    webhooks.contains { endpoint in
      endpoint.events.map { !$0.isSubset(of: [WebhookEndpoint.stateEvent]) } ?? true
    }
  }
}

import Configuration
import Crypto
import Foundation
import JSON
import Postgres
import Subscriptions

/// An event in the life of a purchase, a trial or a household, for the webhooks of its app.
package struct LifecycleEvent: Sendable {
  /// What the event is about.
  package enum Subject: Sendable {
    /// A transaction of a purchase, with Apple's ids.
    case purchase(originalTransactionID: String, transactionID: String)
    /// A row of `trials`.
    case trial(UUID)
    /// The pairing of a child's device with the customer's.
    case pairing
  }

  package var type: LifecycleEventType
  package var bundleID: String
  /// Apple's environment.
  package var environment: String
  package var subject: Subject
  /// The facts that make it this event and no other: ids and signed dates, never a time of arrival.
  package var occasion: [String]
  /// `nil` for a purchase without an owner.
  package var customer: Customer?
  /// The customer who had the purchase before a transfer.
  package var formerCustomer: Customer? = nil
  /// The children's devices that the event is about: those that are paused, or the one that was paired or unpaired.
  package var children: [String]? = nil
  /// Of an event that time causes: the end of the paid time, of the grace period or of the trial.
  package var periodEnd: Date? = nil
  package var occurredAt: Date
  /// Whether it may pause paired devices.
  package var checksDevices = false
  /// The members of `data` that have no column, as a JSON object without ids of customers.
  package var data: [UInt8]

  package init(
    type: LifecycleEventType, bundleID: String, environment: String, subject: Subject, occasion: [String],
    customer: Customer? = nil, children: [String]? = nil, periodEnd: Date? = nil,
    occurredAt: Date, checksDevices: Bool = false, data: [UInt8]
  ) {
    self.type = type
    self.bundleID = bundleID
    self.environment = environment
    self.subject = subject
    self.occasion = occasion
    self.customer = customer
    self.children = children
    self.periodEnd = periodEnd
    self.occurredAt = occurredAt
    self.checksDevices = checksDevices
    self.data = data
  }

  /// The id: the same for the same cause, on every server. It is a UUID of version 8 (RFC 9562 §5.8) made of a SHA-256.
  package var id: UUID {
    let subject =
      switch subject {
      case .purchase(let original, _): original
      case .trial(let id): id.uuidString.lowercased()
      case .pairing: customer?.id ?? ""
      }
    let name = ([bundleID, environment, type.rawValue, subject] + occasion).joined(separator: "\n")
    var bytes = Array(SHA256.hash(data: Data(name.utf8)).prefix(16))
    bytes[6] = bytes[6] & 0x0F | 0x80
    bytes[8] = bytes[8] & 0x3F | 0x80
    return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }
}

extension LifecycleEvent {
  /// An older event is written down and not sent: receiptd learned it late, from a history or after an outage. The App
  /// Store repeats a notification for six and a half days.
  package static let maximumAge: TimeInterval = 7 * 86_400
  /// For how long events are kept. An older one is not even written down.
  package static let lifetime: TimeInterval = 90 * 86_400
}

extension Household {
  /// The event of a pairing, or of its end.
  /// - Parameters:
  ///   - parent: the device that the child's was paired with.
  ///   - pairedAt: when it was paired.
  func event(
    _ type: LifecycleEventType, of child: String, with parent: String, pairedAt: Date, in app: App,
    at instant: Date
  ) -> LifecycleEvent {
    LifecycleEvent(
      type: type, bundleID: app.bundleID, environment: environment.rawValue, subject: .pairing,
      occasion: [child, pairedAt.occasion], customer: .device(parent), children: [child], occurredAt: instant,
      data: Array("{}".utf8))
  }
}

extension Date {
  /// Apple's form of an instant: milliseconds since 1970.
  package var occasion: String { "\(Int64((timeIntervalSince1970 * 1000).rounded()))" }
}

/// Statements on the table `lifecycle_events`.
package enum LifecycleEventRows {
  /// How long an event of a purchase without an owner waits: the client often claims the purchase seconds after the App
  /// Store's notification.
  private static let waitForOwner: TimeInterval = 30

  /// Writes down events that are not known yet, and queues them for the webhooks of their apps. Runs in the transaction
  /// of the change that caused them.
  ///
  /// An event that is older than ``LifecycleEvent/maximumAge``, or from before the webhook was first configured, is
  /// written down and not queued.
  /// - Returns: `nil` if there are no events.
  package static func insert(_ events: [LifecycleEvent], in catalog: AppCatalog, at instant: Date) -> Query? {
    // Tests in Xcode are no business of a receiver.
    let told = events.filter { $0.environment != StoreEnvironment.xcode.rawValue }
    guard !told.isEmpty else { return nil }
    // Two events of a batch may have one cause. Rows are locked in the order of their ids.
    let unique = Dictionary(told.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    let rows = unique.sorted { $0.key.uuidString < $1.key.uuidString }
    let (ids, events) = (rows.map(\.key), rows.map(\.value))
    let places = rows.flatMap { id, event in
      (catalog[event.bundleID]?.webhooks ?? []).filter { $0.receives(event.type.rawValue) }.map {
        (id, $0.name)
      }
    }
    return """
      WITH new AS (
        INSERT INTO lifecycle_events (id, type, bundle_id, environment, user_id, device_id, former_user_id,
          former_device_id, child_device_ids, original_transaction_id, transaction_id, trial_id, period_end,
          occurred_at, data, checks_devices, created_at)
        SELECT event.*, \(instant)::timestamptz FROM \(rows: events.count)
          \(each: ids), \(each: events.map(\.type.rawValue)), \(each: events.map(\.bundleID)),
          \(each: events.map(\.environment)), \(each: events.map { $0.customer?.userID }),
          \(each: events.map { $0.customer?.deviceID }), \(each: events.map { $0.formerCustomer?.userID }),
          \(each: events.map { $0.formerCustomer?.deviceID }), \(each: events.map(\.childrenJSON)),
          \(each: events.map(\.originalTransactionID)), \(each: events.map(\.transactionID)),
          \(each: events.map(\.trialID)), \(each: events.map(\.periodEnd)), \(each: events.map(\.occurredAt)),
          \(each: events.map { JSONText(utf8: $0.data) }), \(each: events.map(\.checksDevices)))) AS event
        ON CONFLICT (id) DO NOTHING
        RETURNING id, bundle_id, occurred_at, user_id IS NULL AND device_id IS NULL AS waits)
      INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
      SELECT \(OutboxDestination.Kind.event.rawValue)::text, new.id::text, new.bundle_id, place.endpoint, '{}',
        \(instant)::timestamptz,
        CASE WHEN new.waits THEN \(instant + waitForOwner)::timestamptz ELSE \(instant)::timestamptz END
      FROM new JOIN unnest(\(places.map(\.0))::uuid[], \(places.map(\.1))::text[]) AS place (id, endpoint)
        ON place.id = new.id
      LEFT JOIN outbox_destinations AS known ON known.destination = \(OutboxDestination.Kind.event.rawValue)::text
        AND known.bundle_id = new.bundle_id AND known.endpoint = place.endpoint
      WHERE new.occurred_at >= greatest(
        known.first_seen_at, \(instant - LifecycleEvent.maximumAge)::timestamptz)
      ORDER BY 1, 2, 3, 4
      ON CONFLICT (destination, key, bundle_id, endpoint) DO NOTHING
      """
  }

  /// Fixes the contents of events that are about to be sent for the first time: a purchase that had no owner when its
  /// event was written may have one now. An id has one body for good, for all webhooks, so a later owner is not named.
  package static func fix(_ ids: [UUID], at instant: Date) -> [Query] {
    [
      // In the order in which the erasure of a customer locks them.
      "SELECT FROM lifecycle_events WHERE id = ANY(\(ids)) AND first_sent_at IS NULL ORDER BY id FOR UPDATE",
      """
      UPDATE lifecycle_events AS event SET user_id = owned.user_id, device_id = owned.device_id
      FROM subscriptions AS owned
      WHERE event.id = ANY(\(ids)) AND event.first_sent_at IS NULL AND event.erased_at IS NULL
        AND event.user_id IS NULL AND event.device_id IS NULL
        AND owned.original_transaction_id = event.original_transaction_id
        AND (owned.user_id IS NOT NULL OR owned.device_id IS NOT NULL)
      """,
      """
      UPDATE lifecycle_events SET first_sent_at = \(instant)
      WHERE id = ANY(\(ids)) AND first_sent_at IS NULL AND erased_at IS NULL
      """,
    ]
  }

  /// The events with these ids, for ``StoredLifecycleEvent``; none whose customer was erased.
  package static func select(_ ids: [UUID]) -> Query {
    """
    SELECT id, type, bundle_id, environment, user_id, device_id, former_user_id, former_device_id, child_device_ids,
      original_transaction_id, transaction_id, occurred_at, data
    FROM lifecycle_events WHERE id = ANY(\(ids)) AND erased_at IS NULL
    """
  }

  /// Queues the events of a span again, under their ids, for the webhooks that receive them now. Events of erased
  /// customers are left out.
  /// - Parameters:
  ///   - types: the types of each webhook, by its name.
  ///   - span: when receiptd learned the events.
  package static func replay(
    _ types: [(type: String, bundleID: String, endpoint: String)], in span: Range<Date>, at instant: Date
  ) -> Query {
    """
    INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, created_at, next_attempt_at)
    SELECT \(OutboxDestination.Kind.event.rawValue)::text, event.id::text, event.bundle_id, place.endpoint, '{}',
      \(instant)::timestamptz, \(instant)::timestamptz
    FROM lifecycle_events AS event JOIN unnest(\(types.map(\.type))::text[], \(types.map(\.bundleID))::text[],
      \(types.map(\.endpoint))::text[]) AS place (type, bundle_id, endpoint)
      ON place.type = event.type AND place.bundle_id = event.bundle_id
    WHERE event.created_at >= \(span.lowerBound) AND event.created_at < \(span.upperBound)
      AND event.erased_at IS NULL
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (destination, key, bundle_id, endpoint) DO UPDATE SET
      change = nextval('outbox_changes'), created_at = excluded.created_at, attempts = 0,
      next_attempt_at = excluded.next_attempt_at, last_error = NULL, done_at = NULL, dead_at = NULL,
      delivered_digest = NULL, attempted_digest = NULL
    """
  }

  /// The number of events of a span by type.
  package static func count(
    _ types: [(type: String, bundleID: String)], in span: Range<Date>
  ) -> Query {
    """
    SELECT event.type, count(*) AS events FROM lifecycle_events AS event
    JOIN unnest(\(types.map(\.type))::text[], \(types.map(\.bundleID))::text[]) AS place (type, bundle_id)
      ON place.type = event.type AND place.bundle_id = event.bundle_id
    WHERE event.created_at >= \(span.lowerBound) AND event.created_at < \(span.upperBound)
      AND event.erased_at IS NULL
    GROUP BY 1 ORDER BY 1
    """
  }

  /// Deletes old events.
  package static func delete(before oldest: Date, limit: Int) -> Query {
    """
    DELETE FROM lifecycle_events WHERE id IN (
      SELECT id FROM lifecycle_events WHERE created_at < \(oldest) ORDER BY created_at LIMIT \(limit))
    """
  }
}

extension LifecycleEvent {
  fileprivate var originalTransactionID: String? {
    if case .purchase(let id, _) = subject { id } else { nil }
  }

  fileprivate var transactionID: String? {
    if case .purchase(_, let id) = subject { id } else { nil }
  }

  fileprivate var trialID: UUID? {
    if case .trial(let id) = subject { id } else { nil }
  }

  fileprivate var childrenJSON: JSONText? {
    children.map { JSONText(utf8: JSONWriter.bytes(of: $0)) }
  }
}

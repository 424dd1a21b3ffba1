import Foundation
import Ledger
import Postgres
import Subscriptions
import Text

/// One row of `events`.
struct EventRecord: Sendable {
  var bundleID: String
  var customerID: String
  var id: UUID
  var name: String
  var at: Date
  var properties: JSONText?
}

/// The queries on `events`, `event_bytes_daily`, `customer_event_bytes` and `kpi_events_daily`.
enum EventRows {
  /// The bytes of events that one customer of an app stores in a day: 800 events or more, without properties. Anybody
  /// can send events in a customer's name, and the export and the erasure of the customer read all of them.
  static let bytesPerCustomer = 256 << 10

  /// The names that `kpi_daily` shows. An app of before names a StoreKit error `purchase_failed`; it counts as
  /// `storekit_error`.
  private static let shown = [
    "paywall_shown", "purchase_initiated", "storekit_error", "purchase_failed", "app_opened",
    "restore_started",
    "restore_succeeded", "app_crashed", "app_hang",
  ]

  /// The new events of a request.
  struct Kept {
    var count: Int
    /// The number of events under each of ``names``.
    var byName: [String: Int]

    /// The names that have a metric, and `other`.
    static let names = counted + ["other"]
    private static let counted = ["paywall_shown", "purchase_initiated", "storekit_error"]

    init(_ row: Row) throws {
      count = try row.decode("new_events")
      byName = try Dictionary(
        uniqueKeysWithValues: Self.counted.map { ($0, try row.decode($0, as: Int.self)) })
      byName["other"] = byName.values.reduce(count, -)
    }
  }

  /// Charges all events of a request to the app's day and to the customer's, and keeps them; nothing, if the app's day
  /// would exceed ``App/eventBytesPerDay`` or the customer's ``bytesPerCustomer``. Returns one row: whether they were
  /// charged (`is_charged`), or else whether the limit is the customer's (`is_of_customer`), and the new events
  /// (``Kept``).
  ///
  /// It is one statement, so that no event is kept without a charge. The charge locks the app's day until the commit,
  /// so all servers together stay below both limits. A request that exceeds a limit is refused before that lock; if the
  /// customer's limit is reached while the request waits for the lock, the app alone is charged. An event whose id is
  /// known is charged and not kept again.
  ///
  /// The charge of an event is its size on the disk before compression: its row, the two texts in the entry of the
  /// primary key, and 100 bytes for the rest of both index entries, `received_at` and PostgreSQL's padding. Where the
  /// properties are longer as text, as `1e308` with its 309 digits is, the text counts: a customer's export writes it.
  ///
  /// - Parameter customer: the customer of all records, and whether a user's token proves it. In an app with users, a
  ///   quarter of each day's bytes is reserved for events with a token.
  static func insert(
    _ records: [EventRecord], of app: App, by customer: (name: String, isProven: Bool), at instant: Date
  ) -> Query {
    let hasAll = customer.isProven || app.customer == .device
    let most = hasAll ? app.eventBytesPerDay : app.eventBytesPerDay / 4 * 3
    let mostOfCustomer = hasAll ? bytesPerCustomer : bytesPerCustomer / 4 * 3
    return """
      WITH sent AS MATERIALIZED (
        SELECT * FROM unnest(
          \(records.map(\.bundleID))::text[], \(records.map(\.customerID))::text[],
          \(records.map(\.id))::uuid[], \(records.map(\.name))::text[], \(records.map(\.at))::timestamptz[],
          \(records.map(\.properties))::jsonb[]) AS sent (bundle_id, customer_id, id, name, at, properties)
      ), charge AS MATERIALIZED (
        SELECT \(app.bundleID)::text AS bundle_id, sha256(convert_to(\(customer.name)::text, 'UTF8')) AS customer_digest,
          \(Day(of: instant).description)::text::date AS day,
          sum(100 + pg_column_size(sent) + pg_column_size(bundle_id) + pg_column_size(customer_id)
            + greatest(0, octet_length(properties::text) - pg_column_size(properties))) AS bytes
        FROM sent
      ), former AS MATERIALIZED (
        SELECT coalesce((
            SELECT known.bytes FROM event_bytes_daily AS known
            WHERE known.bundle_id = charge.bundle_id AND known.day = charge.day), 0) AS of_app,
          coalesce((
            SELECT known.bytes FROM customer_event_bytes AS known
            WHERE known.day = charge.day AND known.bundle_id = charge.bundle_id
              AND known.customer_digest = charge.customer_digest), 0) AS of_customer
        FROM charge
      ), charged AS (
        INSERT INTO event_bytes_daily AS known (bundle_id, day, bytes)
        SELECT charge.bundle_id, charge.day, charge.bytes FROM charge, former
        WHERE former.of_app + charge.bytes <= \(most) AND former.of_customer + charge.bytes <= \(mostOfCustomer)
        ON CONFLICT (bundle_id, day) DO UPDATE SET bytes = known.bytes + excluded.bytes
          WHERE known.bytes + excluded.bytes <= \(most)
        RETURNING bytes
      ), counted AS (
        INSERT INTO customer_event_bytes AS known (day, bundle_id, customer_digest, bytes)
        SELECT day, bundle_id, customer_digest, bytes FROM charge WHERE EXISTS (SELECT FROM charged)
        ON CONFLICT (day, bundle_id, customer_digest) DO UPDATE SET bytes = known.bytes + excluded.bytes
          WHERE known.bytes + excluded.bytes <= \(mostOfCustomer)
        RETURNING bytes
      ), kept AS (
        INSERT INTO events (bundle_id, customer_id, id, name, at, properties, received_at)
        SELECT *, \(instant)::timestamptz FROM sent WHERE EXISTS (SELECT FROM counted)
        ON CONFLICT DO NOTHING
        RETURNING name
      )
      SELECT EXISTS (SELECT FROM counted) AS is_charged,
        EXISTS (SELECT FROM charged) OR (
          SELECT former.of_customer + charge.bytes > \(mostOfCustomer) FROM charge, former) AS is_of_customer,
        count(*) AS new_events,
        count(*) FILTER (WHERE name = 'paywall_shown') AS paywall_shown,
        count(*) FILTER (WHERE name = 'purchase_initiated') AS purchase_initiated,
        count(*) FILTER (WHERE name IN ('storekit_error', 'purchase_failed')) AS storekit_error
      FROM kept
      """
  }

  /// Deletes the charges of days before this one.
  static func deleteCharges(before day: Day) -> Query {
    "DELETE FROM event_bytes_daily WHERE day < \(day.description)::text::date"
  }

  /// Deletes at most `limit` charges of customers of days before this one.
  static func deleteCustomerCharges(before day: Day, limit: Int) -> Query {
    """
    DELETE FROM customer_event_bytes WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM customer_event_bytes WHERE day < \(day.description)::text::date LIMIT \(limit)))
    """
  }

  /// Deletes at most `limit` events from before an instant.
  static func delete(before instant: Date, limit: Int) -> Query {
    """
    DELETE FROM events
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM events WHERE at < \(instant) LIMIT \(limit)))
    """
  }

  /// Deletes the counts of these days.
  static func deleteCounts(from first: Day, through last: Day) -> Query {
    """
    DELETE FROM kpi_events_daily
    WHERE day >= \(first.description)::text::date AND day <= \(last.description)::text::date
    """
  }

  /// Counts these days' events.
  ///
  /// Clients can send any name, so only the most frequent names of a day get a row of their own. The names that
  /// `kpi_daily` shows (``shown``) always do.
  static func count(from first: Day, through last: Day) -> Query {
    """
    WITH sent AS MATERIALIZED (
      SELECT (at AT TIME ZONE 'UTC')::date AS day, bundle_id, name, customer_id FROM events
      WHERE at >= \(first.start) AND at < \(last.end)
    ), ranked AS (
      SELECT day, bundle_id, name, row_number() OVER (
        PARTITION BY day, bundle_id
        ORDER BY name = ANY(\(shown)) DESC, count(*) DESC, name) AS rank
      FROM sent GROUP BY day, bundle_id, name
    )
    INSERT INTO kpi_events_daily (day, bundle_id, name, events, customers)
    SELECT day, bundle_id, CASE WHEN rank <= 200 THEN name ELSE '(other)' END, count(*),
      count(DISTINCT customer_id)
    FROM sent JOIN ranked USING (day, bundle_id, name)
    GROUP BY 1, 2, 3
    """
  }
}

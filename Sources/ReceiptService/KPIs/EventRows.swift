import Foundation
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

/// The queries on `events`, `event_bytes_daily` and `kpi_events_daily`.
enum EventRows {
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

  /// Charges all events of a request to the app's day and keeps them; neither, if the day would exceed
  /// ``App/eventBytesPerDay``. Returns one row: whether they were charged, and the new events (``Kept``).
  ///
  /// It is one statement, so that no event is kept without a charge. The charge locks the app's day until the commit, so all
  /// servers together stay below the limit. A request that exceeds the limit is refused before that lock. An event whose id
  /// is known is charged and not kept again.
  ///
  /// The charge of an event is its size on the disk before compression: its row, the two texts in the entry of the primary
  /// key, and 100 bytes for the rest of both index entries, `received_at` and PostgreSQL's padding.
  ///
  /// - Parameter isProven: whether a user's token proves the customer. In an app with users, a quarter of the day's bytes is
  ///   reserved for events with a token.
  static func insert(_ records: [EventRecord], of app: App, isProven: Bool, at instant: Date) -> Query {
    let most =
      isProven || app.customer == .device ? app.eventBytesPerDay : app.eventBytesPerDay / 4 * 3
    return """
      WITH sent AS MATERIALIZED (
        SELECT * FROM unnest(
          \(records.map(\.bundleID))::text[], \(records.map(\.customerID))::text[],
          \(records.map(\.id))::uuid[], \(records.map(\.name))::text[], \(records.map(\.at))::timestamptz[],
          \(records.map(\.properties))::jsonb[]) AS sent (bundle_id, customer_id, id, name, at, properties)
      ), day AS (
        SELECT \(app.bundleID)::text AS bundle_id, \(Day(of: instant).description)::text::date AS day
      ), charged AS (
        INSERT INTO event_bytes_daily AS known (bundle_id, day, bytes)
        SELECT day.bundle_id, day.day, size.bytes
        FROM day, (
          SELECT sum(100 + pg_column_size(sent) + pg_column_size(bundle_id) + pg_column_size(customer_id)) AS bytes
          FROM sent) AS size
        WHERE size.bytes + coalesce((
            SELECT former.bytes FROM event_bytes_daily AS former
            WHERE former.bundle_id = day.bundle_id AND former.day = day.day), 0) <= \(most)
        ON CONFLICT (bundle_id, day) DO UPDATE SET bytes = known.bytes + excluded.bytes
          WHERE known.bytes + excluded.bytes <= \(most)
        RETURNING bytes
      ), kept AS (
        INSERT INTO events (bundle_id, customer_id, id, name, at, properties, received_at)
        SELECT *, \(instant)::timestamptz FROM sent WHERE EXISTS (SELECT FROM charged)
        ON CONFLICT DO NOTHING
        RETURNING name
      )
      SELECT EXISTS (SELECT FROM charged) AS is_charged, count(*) AS new_events,
        count(*) FILTER (WHERE name = 'paywall_shown') AS paywall_shown,
        count(*) FILTER (WHERE name = 'purchase_initiated') AS purchase_initiated,
        count(*) FILTER (WHERE name = 'storekit_error') AS storekit_error
      FROM kept
      """
  }

  /// Deletes the charges of days before this one.
  static func deleteCharges(before day: Day) -> Query {
    "DELETE FROM event_bytes_daily WHERE day < \(day.description)::text::date"
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
  /// Clients can send any name, so only the most frequent names of a day get a row of their own. The names that `kpi_daily`
  /// shows always do.
  static func count(from first: Day, through last: Day, namesOfADay: Int = 200) -> Query {
    """
    WITH sent AS MATERIALIZED (
      SELECT (at AT TIME ZONE 'UTC')::date AS day, bundle_id, name, customer_id FROM events
      WHERE at >= \(first.start) AND at < \(last.end)
    ), ranked AS (
      SELECT day, bundle_id, name, row_number() OVER (
        PARTITION BY day, bundle_id
        ORDER BY name IN ('paywall_shown', 'purchase_initiated', 'storekit_error') DESC, count(*) DESC, name) AS rank
      FROM sent GROUP BY day, bundle_id, name
    )
    INSERT INTO kpi_events_daily (day, bundle_id, name, events, customers)
    SELECT day, bundle_id, CASE WHEN rank <= \(namesOfADay) THEN name ELSE '(other)' END, count(*),
      count(DISTINCT customer_id)
    FROM sent JOIN ranked USING (day, bundle_id, name)
    GROUP BY 1, 2, 3
    """
  }
}

import FoundationEssentials
import Postgres
import Subscriptions

/// One row of `events`.
struct EventRecord: Sendable {
  var bundleID: String
  var customerID: String
  var id: UUID
  var name: String
  var at: Date
  var properties: JSONText?
}

/// The table `events`, what is charged for it in `event_bytes_daily`, and what is counted of it.
enum EventRows {
  /// Charges all events of a request to the app's day and keeps them, or does neither, where the day would have more than
  /// ``App/eventBytesPerDay``. Answers one row: whether they were charged, and how many were new.
  ///
  /// One statement, so nothing is kept that is not charged. The charge locks the app's day until the commit, so all
  /// servers together stay below the limit; a day that has no room is refused before that lock. An event whose id is
  /// known is charged and passed over.
  ///
  /// An event is charged with what it takes on the disk before compression: its row, the two texts of the primary key's
  /// entry, and 100 bytes for the rest of both index entries, `received_at` and the room that PostgreSQL leaves.
  ///
  /// - Parameter isProven: whether a user's token proves the customer. In an app with users, callers without a token leave
  ///   a quarter of the day to those with one.
  static func insert(_ records: [EventRecord], of app: App, isProven: Bool, at instant: Date) -> Query {
    let most =
      isProven || app.customer == .device ? app.eventBytesPerDay : app.eventBytesPerDay / 4 * 3
    return """
      WITH told AS MATERIALIZED (
        SELECT * FROM unnest(
          \(records.map(\.bundleID))::text[], \(records.map(\.customerID))::text[],
          \(records.map(\.id))::uuid[], \(records.map(\.name))::text[], \(records.map(\.at))::timestamptz[],
          \(records.map(\.properties))::jsonb[]) AS told (bundle_id, customer_id, id, name, at, properties)
      ), day AS (
        SELECT \(app.bundleID)::text AS bundle_id, \(Day(of: instant).description)::text::date AS day
      ), charged AS (
        INSERT INTO event_bytes_daily AS known (bundle_id, day, bytes)
        SELECT day.bundle_id, day.day, size.bytes
        FROM day, (
          SELECT sum(100 + pg_column_size(told) + pg_column_size(bundle_id) + pg_column_size(customer_id)) AS bytes
          FROM told) AS size
        WHERE size.bytes + coalesce((
            SELECT former.bytes FROM event_bytes_daily AS former
            WHERE former.bundle_id = day.bundle_id AND former.day = day.day), 0) <= \(most)
        ON CONFLICT (bundle_id, day) DO UPDATE SET bytes = known.bytes + excluded.bytes
          WHERE known.bytes + excluded.bytes <= \(most)
        RETURNING bytes
      ), kept AS (
        INSERT INTO events (bundle_id, customer_id, id, name, at, properties, received_at)
        SELECT *, \(instant)::timestamptz FROM told WHERE EXISTS (SELECT FROM charged)
        ON CONFLICT DO NOTHING
        RETURNING id
      )
      SELECT EXISTS (SELECT FROM charged), (SELECT count(*) FROM kept)
      """
  }

  /// Deletes what was charged for days before this one.
  static func deleteCharges(before day: Day) -> Query {
    "DELETE FROM event_bytes_daily WHERE day < \(day.description)::text::date"
  }

  /// Deletes events from before an instant, at most `limit` of them.
  static func delete(before instant: Date, limit: Int) -> Query {
    """
    DELETE FROM events
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM events WHERE at < \(instant) LIMIT \(limit)))
    """
  }

  /// Forgets what was counted of these days.
  static func forgetCounts(from first: Day, through last: Day) -> Query {
    """
    DELETE FROM kpi_events_daily
    WHERE day >= \(first.description)::text::date AND day <= \(last.description)::text::date
    """
  }

  /// Counts these days' events.
  ///
  /// Anybody can send any name, so only so many of a day are told apart; the two that `kpi_daily` shows always are.
  static func count(from first: Day, through last: Day, namesOfADay: Int = 200) -> Query {
    """
    WITH told AS MATERIALIZED (
      SELECT (at AT TIME ZONE 'UTC')::date AS day, bundle_id, name, customer_id FROM events
      WHERE at >= \(first.start) AND at < \(last.end)
    ), ranked AS (
      SELECT day, bundle_id, name, row_number() OVER (
        PARTITION BY day, bundle_id
        ORDER BY name IN ('paywall_shown', 'purchase_initiated') DESC, count(*) DESC, name) AS rank
      FROM told GROUP BY day, bundle_id, name
    )
    INSERT INTO kpi_events_daily (day, bundle_id, name, events, customers)
    SELECT day, bundle_id, CASE WHEN rank <= \(namesOfADay) THEN name ELSE '(other)' END, count(*),
      count(DISTINCT customer_id)
    FROM told JOIN ranked USING (day, bundle_id, name)
    GROUP BY 1, 2, 3
    """
  }
}

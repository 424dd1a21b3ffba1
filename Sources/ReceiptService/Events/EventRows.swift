import FoundationEssentials
import Postgres

/// One row of `events`.
struct EventRecord: Sendable {
  var bundleID: String
  var customerID: String
  var id: UUID
  var name: String
  var at: Date
  var properties: JSONText?
}

/// The table `events`, and what is counted of it.
enum EventRows {
  /// All of a request in one statement; an event whose id is known is passed over.
  static func insert(_ records: [EventRecord], at instant: Date) -> Query {
    """
    INSERT INTO events (bundle_id, customer_id, id, name, at, properties, received_at)
    SELECT *, \(instant)::timestamptz FROM unnest(
      \(records.map(\.bundleID))::text[], \(records.map(\.customerID))::text[],
      \(records.map(\.id))::uuid[], \(records.map(\.name))::text[], \(records.map(\.at))::timestamptz[],
      \(records.map(\.properties))::jsonb[])
    ON CONFLICT DO NOTHING
    """
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

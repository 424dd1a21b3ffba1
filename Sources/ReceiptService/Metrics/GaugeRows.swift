import Foundation
import Postgres

/// The queries of ``DatabaseGauges``.
enum GaugeRows {
  /// Rows beyond this number are not counted.
  private static let limit = 10_000

  /// The rows of one destination and app that wait for delivery.
  struct Waiting {
    var destination: String
    var app: String
    var rows: Int
    var oldest: Date

    init(_ row: Row) throws {
      destination = try row.decode("destination")
      app = try row.decode("app")
      rows = try row.decode("rows")
      oldest = try row.decode("oldest")
    }
  }

  /// The rows of one destination and app whose delivery was given up.
  struct Dead {
    var destination: String
    var app: String
    var rows: Int

    init(_ row: Row) throws {
      destination = try row.decode("destination")
      app = try row.decode("app")
      rows = try row.decode("rows")
    }
  }

  /// The trials of one app that ended within 30 days.
  struct Trials {
    var app: String
    var ended: Int
    var converted: Int

    init(_ row: Row) throws {
      app = try row.decode("app")
      ended = try row.decode("ended")
      converted = try row.decode("converted")
    }
  }

  /// When the subscription that has been due longest was due.
  static func oldestDue(in bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT next_change_at FROM subscriptions
    WHERE next_change_at <= \(instant) AND bundle_id = ANY(\(bundleIDs))
    ORDER BY next_change_at LIMIT 1
    """
  }

  static var waitingNotifications: Query {
    """
    SELECT count(*) AS rows FROM (
      SELECT FROM notifications WHERE processed_at IS NULL ORDER BY received_at LIMIT \(limit)) AS waiting
    """
  }

  /// The rows that wait for delivery, by destination and app.
  static var outbox: Query {
    """
    SELECT destination, coalesce(bundle_id, '') AS app, count(*) AS rows, min(created_at) AS oldest FROM (
      SELECT destination, bundle_id, created_at FROM outbox
      WHERE done_at IS NULL AND dead_at IS NULL ORDER BY created_at LIMIT \(limit)) AS waiting
    GROUP BY 1, 2
    """
  }

  /// The rows whose delivery was given up, by destination and app.
  static var deadLetters: Query {
    """
    SELECT destination, coalesce(bundle_id, '') AS app, count(*) AS rows FROM (
      SELECT destination, bundle_id FROM outbox
      WHERE done_at IS NULL AND dead_at IS NOT NULL ORDER BY created_at LIMIT \(limit)) AS dead
    GROUP BY 1, 2
    """
  }

  /// The number of trials that ended within 30 days, and of those that converted, by the rules of `kpi_daily`.
  ///
  /// Trials of the app's own, each once, however many devices continue it, and free first periods of the App Store.
  static func trials(of bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT app, count(ended.bundle_id) AS ended, count(ended.bundle_id) FILTER (WHERE ended.is_converted) AS converted
    FROM unnest(\(bundleIDs)::text[]) AS app
    LEFT JOIN (
      SELECT r.bundle_id, \(PaidTransaction.firstOfTrial) >= r.started_at AS is_converted FROM trials r
      WHERE r.continues IS NULL AND r.environment = 'Production'
        AND r.ends_at > \(instant)::timestamptz - interval '30 days' AND r.ends_at <= \(instant)
      UNION ALL
      SELECT f.bundle_id, EXISTS (
        SELECT FROM transactions t
        WHERE t.original_transaction_id = f.original_transaction_id AND t.ownership = 'PURCHASED'
          AND \(PaidTransaction.condition))
      FROM (
        SELECT t.original_transaction_id, t.bundle_id FROM transactions t
        WHERE t.expiry_date > \(instant)::timestamptz - interval '30 days' AND t.expiry_date <= \(instant)
          AND t.environment = 'Production' AND t.ownership = 'PURCHASED' AND t.kind = 'Auto-Renewable Subscription'
          AND t.transaction_id = t.original_transaction_id AND NOT (\(PaidTransaction.condition))) AS f
    ) AS ended ON ended.bundle_id = app
    GROUP BY app
    """
  }
}

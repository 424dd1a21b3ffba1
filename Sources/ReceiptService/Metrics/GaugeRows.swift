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
  /// A trial converts if the first paid purchase of its device or Apple Account came after the start of the trial. A trial
  /// that continues on another device of the account counts once.
  static func trials(of bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT app, count(trials.id) AS ended, count(trials.id) FILTER (WHERE (
      SELECT min(t.purchase_date) FROM subscriptions s JOIN transactions t USING (original_transaction_id)
      WHERE s.bundle_id = trials.bundle_id
        AND (s.device_id = trials.device_id OR s.app_transaction_id = trials.app_transaction_id)
        AND t.environment = 'Production' AND t.ownership = 'PURCHASED' AND \(PaidTransaction.condition)
        AND NOT (\(PaidTransaction.isRestored))) >= trials.started_at) AS converted
    FROM unnest(\(bundleIDs)::text[]) AS app
    LEFT JOIN trials ON trials.bundle_id = app AND continues IS NULL AND trials.environment = 'Production'
      AND ends_at > \(instant)::timestamptz - interval '30 days' AND ends_at <= \(instant)
    GROUP BY app
    """
  }
}

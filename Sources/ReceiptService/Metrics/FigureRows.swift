import FoundationEssentials
import Postgres

/// What is read for metrics, each to a bound.
enum FigureRows {
  /// Rows beyond this are not counted.
  private static let bound = 10_000

  /// When the subscription that waits longest to be judged again was due.
  static func oldestDue(in bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT next_change_at FROM subscriptions
    WHERE next_change_at <= \(instant) AND bundle_id = ANY(\(bundleIDs))
    ORDER BY next_change_at LIMIT 1
    """
  }

  static var waitingNotifications: Query {
    """
    SELECT count(*) FROM (
      SELECT FROM notifications WHERE processed_at IS NULL ORDER BY received_at LIMIT \(bound)) AS waiting
    """
  }

  /// What is still to be delivered, by place.
  static var outbox: Query {
    """
    SELECT destination, coalesce(bundle_id, ''), count(*), min(created_at) FROM (
      SELECT destination, bundle_id, created_at FROM outbox
      WHERE done_at IS NULL AND dead_at IS NULL ORDER BY created_at LIMIT \(bound)) AS waiting
    GROUP BY 1, 2
    """
  }

  /// What was given up, by place.
  static var deadLetters: Query {
    """
    SELECT destination, coalesce(bundle_id, ''), count(*) FROM (
      SELECT destination, bundle_id FROM outbox
      WHERE done_at IS NULL AND dead_at IS NOT NULL ORDER BY created_at LIMIT \(bound)) AS dead
    GROUP BY 1, 2
    """
  }

  /// Of the trials that ended within 30 days, how many there were and how many converted, by the rules of `kpi_daily`: the
  /// first paid purchase of the device or the Apple Account came after the trial began. A trial that goes on on another
  /// device of the account is not another one.
  static func trials(of bundleIDs: [String], at instant: Date) -> Query {
    """
    SELECT app, count(trials.id), count(trials.id) FILTER (WHERE (
      SELECT min(t.purchase_date) FROM subscriptions s JOIN transactions t USING (original_transaction_id)
      WHERE s.bundle_id = trials.bundle_id
        AND (s.device_id = trials.device_id OR s.app_transaction_id = trials.app_transaction_id)
        AND t.environment = 'Production' AND t.ownership = 'PURCHASED' AND \(PaidTransaction.condition)
        AND NOT (\(PaidTransaction.isRestored))) >= trials.started_at)
    FROM unnest(\(bundleIDs)::text[]) AS app
    LEFT JOIN trials ON trials.bundle_id = app AND continues IS NULL AND trials.environment = 'Production'
      AND ends_at > \(instant)::timestamptz - interval '30 days' AND ends_at <= \(instant)
    GROUP BY app
    """
  }
}

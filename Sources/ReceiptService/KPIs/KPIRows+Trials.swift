import Foundation
import Postgres

extension KPIRows {
  /// What happened to trials on the day.
  static func trials(_ day: Day, asOf: Date) -> Query {
    """
    -- The App Store's trials: free first periods.
    free_first AS NOT MATERIALIZED (
      SELECT s.* FROM sold s
      WHERE s.renews AND NOT s.is_paid AND s.transaction_id = s.original_transaction_id
    ),
    own_trials AS NOT MATERIALIZED (
      SELECT r.*, \(PaidTransaction.firstOfTrial) AS paid_at FROM trials r
      WHERE r.continues IS NULL AND r.environment = 'Production'
    ),
    -- One row for a trial that became paid on the day. The tier and the product are those of the purchase, and of the trial.
    conversions AS MATERIALIZED (
      SELECT b.bundle_id, b.tier, b.product_id, f.tier AS trial_tier, f.product_id AS trial_product_id,
        f.purchase_date AS started_at, f.expiry_date AS ends_at, b.purchase_date AS paid_at
      FROM bought b JOIN free_first f ON f.transaction_id = b.original_transaction_id
      WHERE b.is_first_paid
      UNION ALL
      SELECT b.bundle_id, b.tier, b.product_id, '', '', r.started_at, r.ends_at, b.purchase_date
      FROM bought b
      CROSS JOIN LATERAL (
        SELECT (
          SELECT coalesce(erased_as, device_id) FROM subscriptions WHERE original_transaction_id = b.original_transaction_id
        ) AS device_id
      ) AS s
      CROSS JOIN LATERAL (
        SELECT id, started_at, ends_at, paid_at FROM own_trials
        WHERE bundle_id = b.bundle_id AND app_transaction_id = b.app_transaction_id
        UNION SELECT id, started_at, ends_at, paid_at FROM own_trials
        WHERE bundle_id = b.bundle_id AND device_id = s.device_id
      ) AS r
      WHERE b.is_first_paid AND r.started_at <= b.purchase_date AND r.paid_at = b.purchase_date
    ),
    trial_flows AS MATERIALIZED (
      SELECT bundle_id, '' AS tier, '' AS product_id, started_at, 1 AS started, 0 AS converted, 0 AS lapsed
      FROM own_trials WHERE started_at >= \(day.start) AND started_at < \(asOf)
      UNION ALL
      SELECT bundle_id, tier, product_id, purchase_date, 1, 0, 0 FROM bought
      WHERE renews AND NOT is_paid AND transaction_id = original_transaction_id
      UNION ALL
      -- A trial that had lapsed and is paid for later has lapsed no longer.
      SELECT bundle_id, trial_tier, trial_product_id, started_at, 0, 1, CASE WHEN paid_at > ends_at THEN -1 ELSE 0 END
      FROM conversions
      UNION ALL
      SELECT bundle_id, '', '', started_at, 0, 0, 1 FROM own_trials
      WHERE ends_at >= \(day.start) AND ends_at < \(asOf)
        AND coalesce(paid_at NOT BETWEEN started_at AND ends_at, true)
      UNION ALL
      SELECT f.bundle_id, f.tier, f.product_id, f.purchase_date, 0, 0, 1 FROM free_first f
      WHERE f.expiry_date >= \(day.start) AND f.expiry_date < \(asOf) AND NOT EXISTS (
        SELECT FROM taken n
        WHERE n.original_transaction_id = f.original_transaction_id AND n.is_paid
          AND n.purchase_date <= f.expiry_date)
    ),
    """
  }
}

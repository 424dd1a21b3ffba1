import Foundation
import Postgres
import Work

/// The query for the purchases that the expiry sweep updates.
extension SubscriptionRows {
  /// The purchases of these apps whose status has changed with time since the row was written, the longest overdue first.
  ///
  /// Also those whose status begins in the future: a server whose clock is ahead has written them.
  /// - Parameter seen: the purchases of this run that were not updated, which are left out.
  static func due(
    in bundleIDs: [String], except seen: Set<String>, at instant: Date, limit: Int
  ) -> Query {
    // The clocks of two servers may differ by less than this. Without the margin each would rewrite the other's rows.
    let ahead = instant.addingTimeInterval(ClockCorrection.tolerance)
    return """
      (SELECT original_transaction_id, bundle_id FROM subscriptions
       WHERE next_change_at <= \(instant) AND bundle_id = ANY(\(bundleIDs))
         AND original_transaction_id <> ALL(\(seen.sorted()))
       ORDER BY next_change_at LIMIT \(limit))
      UNION ALL
      (SELECT original_transaction_id, bundle_id FROM subscriptions
       WHERE status_since > \(ahead) AND bundle_id = ANY(\(bundleIDs))
         AND (next_change_at IS NULL OR next_change_at > \(instant))
         AND original_transaction_id <> ALL(\(seen.sorted()))
       ORDER BY status_since LIMIT \(limit))
      """
  }
}

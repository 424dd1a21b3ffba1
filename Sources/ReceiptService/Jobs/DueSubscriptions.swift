import FoundationEssentials
import Postgres

/// Purchases that the expiry sweep judges again.
extension SubscriptionRows {
  /// Purchases of these apps whose status has changed by itself since they were written, the longest overdue first; and
  /// those whose status is one of a time to come: a server whose clock is ahead has written them.
  /// - Parameter seen: those that were due in this turn already and could not be judged.
  static func due(
    in bundleIDs: [String], except seen: Set<String>, at instant: Date, limit: Int
  ) -> Query {
    // By less than this the clocks of two servers may differ, and they shall not write a row by turns.
    let ahead = instant.addingTimeInterval(Doctor.clockTolerance)
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

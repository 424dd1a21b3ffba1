import Foundation
import Postgres

/// The queries on `reconcile_positions`, `reconcile_runs` and the overdue rows of `subscriptions`.
enum ReconcileRows {
  /// The most by which the clocks of two servers may differ, in seconds.
  ///
  /// A time that lies farther in the future was written by a wrong clock and is ignored. Otherwise no work would be done
  /// until that time.
  static let clockTolerance: TimeInterval = 300

  /// The end of the history that was read.
  static func position(bundleID: String, environment: String) -> Query {
    """
    SELECT history_read_until FROM reconcile_positions
    WHERE bundle_id = \(bundleID) AND environment = \(environment)
    """
  }

  /// Claims the run for this server. Returns a row unless another server has claimed it within `interval` seconds.
  static func claim(
    bundleID: String, environment: String, every interval: TimeInterval, at instant: Date
  ) -> Query {
    """
    INSERT INTO reconcile_positions AS p (bundle_id, environment, claimed_at)
    VALUES (\(bundleID), \(environment), \(instant))
    ON CONFLICT (bundle_id, environment) DO UPDATE SET claimed_at = excluded.claimed_at
      WHERE p.claimed_at <= \(instant.addingTimeInterval(-interval))
        OR p.claimed_at > \(instant.addingTimeInterval(clockTolerance))
    RETURNING history_read_until
    """
  }

  /// Records that a window of the history was read, unless an earlier window was not.
  /// - Parameters:
  ///   - reachesBack: whether `start` is the beginning of the history.
  ///   - firstSigned: when the first notification of the run was signed. Apple had no address for notifications before, so
  ///     the history tells nothing of an earlier refund. After a gap that the history does not reach, its beginning is set anew.
  static func advance(
    bundleID: String, environment: String, from start: Date, until end: Date, reachesBack: Bool,
    firstSigned: Date?, at instant: Date
  ) -> Query {
    let known: Date? = reachesBack ? end : nil
    let begin: Date? = reachesBack ? firstSigned : nil
    return """
      INSERT INTO reconcile_positions AS p (bundle_id, environment, history_read_until, history_begins_at, claimed_at)
      VALUES (\(bundleID), \(environment), \(known)::timestamptz, \(begin)::timestamptz, \(instant))
      ON CONFLICT (bundle_id, environment) DO UPDATE SET history_read_until = \(end),
        history_begins_at = CASE WHEN p.history_read_until >= \(start)
          THEN least(p.history_begins_at, \(firstSigned)::timestamptz) ELSE \(firstSigned)::timestamptz END
        WHERE \(reachesBack) OR (p.history_read_until >= \(start) AND p.history_read_until < \(end))
      """
  }

  static func insertRun(_ report: ReconcileReport, finishedAt: Date) -> Query {
    """
    INSERT INTO reconcile_runs (bundle_id, environment, started_at, finished_at, read_from, read_until,
      notifications_read, notifications_missed, statuses_asked, repaired, error)
    VALUES (\(report.bundleID), \(report.environment), \(report.startedAt), \(finishedAt),
      \(report.readFrom), \(report.readUntil)::timestamptz, \(report.notificationsRead),
      \(report.notificationsMissed), \(report.statusesAsked),
      \(report.repairs.map(\.originalTransactionID))::text[], \(report.failure)::text)
    """
  }

  /// Claims one subscription that should have renewed at least an hour ago, and returns it.
  ///
  /// No notification has reported its end, or that its renewal is off. Apple retries a charge for 60 days, so older
  /// subscriptions are left out. Other servers leave out the subscription for `lease` seconds; ``markAsked(_:at:)`` makes
  /// that a day once there is a response. Subscriptions that were tried before come last, so that one that always fails
  /// does not delay the others.
  /// - Parameter run: the start of this run; a subscription that was tried since is not returned again.
  static func claimOverdue(
    bundleID: String, environment: String, run: Date, at instant: Date, lease: TimeInterval
  ) -> Query {
    """
    UPDATE subscriptions SET store_asked_at = \(instant.addingTimeInterval(lease - 86_400))
    WHERE original_transaction_id IN (
      SELECT s.original_transaction_id FROM subscriptions s
      LEFT JOIN renewals r USING (original_transaction_id)
      WHERE s.bundle_id = \(bundleID) AND s.environment = \(environment)
        AND s.kind = 'Auto-Renewable Subscription' AND s.revoked_at IS NULL
        AND s.expiry_date <= \(instant.addingTimeInterval(-3_600))
        AND s.expiry_date > \(instant.addingTimeInterval(-65 * 86_400))
        AND (s.store_asked_at IS NULL OR s.store_asked_at <= \(run.addingTimeInterval(-86_400))
          OR s.store_asked_at > \(instant.addingTimeInterval(clockTolerance)))
        AND NOT coalesce(r.signed_at >= s.purchase_date AND NOT r.will_auto_renew
          AND NOT r.is_in_billing_retry, false)
        AND NOT coalesce(r.signed_at >= s.expiry_date AND r.expiration_intent IS NOT NULL
          AND NOT r.is_in_billing_retry, false)
      ORDER BY s.store_asked_at NULLS FIRST, s.expiry_date LIMIT 1
      FOR UPDATE OF s SKIP LOCKED)
    RETURNING original_transaction_id
    """
  }

  /// Records that the App Store has answered about a subscription.
  static func markAsked(_ originalTransactionID: String, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET store_asked_at = \(instant)
    WHERE original_transaction_id = \(originalTransactionID)
    """
  }

  /// Returns a row if the transaction is known.
  static func known(transactionID: String) -> Query {
    "SELECT 1 FROM transactions WHERE transaction_id = \(transactionID)"
  }
}

import FoundationEssentials
import Postgres

/// The tables `reconcile_positions` and `reconcile_runs`, and what is overdue in `subscriptions`.
enum ReconcileRows {
  /// The clocks of two servers may differ by as much. What lies farther ahead was written by a clock that was
  /// wrong, and counts as if it were not there: else nothing would be done until that time comes.
  static let clockTolerance: TimeInterval = 300

  /// How far the history was read.
  static func position(bundleID: String, environment: String) -> Query {
    """
    SELECT history_read_until FROM reconcile_positions
    WHERE bundle_id = \(bundleID) AND environment = \(environment)
    """
  }

  /// Takes it upon this server to read on; gives a row unless another one did within `interval` seconds.
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

  /// Notes that a piece of the history was read, unless that would pass over a piece that was not.
  /// - Parameter reachesBack: whether `start` is as far back as the history goes.
  static func advance(
    bundleID: String, environment: String, from start: Date, until end: Date, reachesBack: Bool,
    at instant: Date
  ) -> Query {
    let known: Date? = reachesBack ? end : nil
    return """
      INSERT INTO reconcile_positions AS p (bundle_id, environment, history_read_until, claimed_at)
      VALUES (\(bundleID), \(environment), \(known)::timestamptz, \(instant))
      ON CONFLICT (bundle_id, environment) DO UPDATE SET history_read_until = \(end)
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

  /// Subscriptions that should have renewed an hour ago or more, and of whose fate nothing was heard: no end
  /// with a reason, no word that renewal is off. Apple tries to charge for 60 days; after that there is
  /// nothing to wait for. Gives one of them, and keeps it from other servers for `lease` seconds only: it
  /// counts as asked when there is an answer (``markAsked(_:at:)``), whatever becomes of this server. Those
  /// that were tried before come last, so that one that always fails does not keep the others waiting.
  /// - Parameter run: when this run began; what was tried since is not given again.
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

  /// Notes that the store has answered about a subscription.
  static func markAsked(_ originalTransactionID: String, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET store_asked_at = \(instant)
    WHERE original_transaction_id = \(originalTransactionID)
    """
  }

  /// A row, if the transaction is known.
  static func known(transactionID: String) -> Query {
    "SELECT 1 FROM transactions WHERE transaction_id = \(transactionID)"
  }
}

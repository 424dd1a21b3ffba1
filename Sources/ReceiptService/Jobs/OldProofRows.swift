import AppStore
import Foundation
import Postgres

/// The statements on the columns `old_proof_…` of `subscriptions`.
enum OldProofRows {
  /// A purchase about which the App Store is asked.
  struct Due: Sendable {
    var originalTransactionID: String
    var transactionID: String
    var bundleID: String
    var environment: AppStore.Environment
    var isSubscription: Bool

    /// The transactions to ask about. A restored purchase has several, and the App Store signs a refund on one of them.
    var asked: [String] {
      isSubscription || transactionID == originalTransactionID
        ? [transactionID] : [originalTransactionID, transactionID]
    }

    init(_ row: Row) throws {
      originalTransactionID = try row.decode("original_transaction_id")
      transactionID = try row.decode("transaction_id")
      bundleID = try row.decode("bundle_id")
      environment = AppStore.Environment(rawValue: try row.decode("environment"))
      isSubscription = try row.decode("is_subscription")
    }
  }

  /// Marks purchases that give access by an old proof, unless the notification history that was read reaches back to it:
  /// that history has a refund since.
  static func mark(
    _ proofs: [(originalTransactionID: String, signedAt: Date)], at instant: Date
  ) -> Query {
    """
    UPDATE subscriptions s
    SET old_proof_signed_at = new.signed_at, old_proof_marked_at = \(instant), old_proof_due_at = \(instant),
      old_proof_asked_at = NULL, old_proof_unknown_at = NULL
    FROM unnest(\(proofs.map(\.originalTransactionID))::text[], \(proofs.map(\.signedAt))::timestamptz[])
      AS new (id, signed_at)
    WHERE s.original_transaction_id = new.id AND NOT EXISTS (
      SELECT FROM reconcile_positions p
      WHERE p.bundle_id = s.bundle_id AND p.environment = s.environment AND p.history_begins_at <= new.signed_at)
    """
  }

  /// Claims one purchase, if it is due.
  static func claim(_ originalTransactionID: String, at instant: Date, lease: TimeInterval) -> Query {
    """
    UPDATE subscriptions SET old_proof_due_at = \(instant + lease)
    WHERE original_transaction_id = \(originalTransactionID) AND old_proof_due_at <= \(instant)
    RETURNING \(unescaped: columns)
    """
  }

  /// Claims due purchases of one app in one environment. Other servers leave them out for `lease` seconds, and so does this one
  /// after a failure.
  static func claimDue(
    of bundleID: String, in environment: AppStore.Environment, at instant: Date, lease: TimeInterval,
    limit: Int
  ) -> Query {
    // A server whose clock is ahead wrote a later time.
    let ahead = instant + lease + ReconcileRows.clockTolerance
    let nextDay = instant + unknownInterval + ReconcileRows.clockTolerance
    return """
      UPDATE subscriptions SET old_proof_due_at = \(instant + lease)
      WHERE original_transaction_id IN (
        SELECT original_transaction_id FROM subscriptions
        WHERE bundle_id = \(bundleID) AND environment = \(environment.rawValue)
          AND (old_proof_due_at <= \(instant)
            OR old_proof_due_at > \(ahead) AND (old_proof_unknown_at IS NULL OR old_proof_due_at > \(nextDay)))
        ORDER BY old_proof_due_at LIMIT \(limit) FOR UPDATE SKIP LOCKED)
      RETURNING \(unescaped: columns)
      """
  }

  private static let columns: StaticString = """
    original_transaction_id, transaction_id, bundle_id, environment,
    kind = 'Auto-Renewable Subscription' AS is_subscription
    """

  /// Makes a purchase due again about which the App Store did not answer.
  static func release(_ originalTransactionID: String, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET old_proof_due_at = \(instant)
    WHERE original_transaction_id = \(originalTransactionID) AND old_proof_due_at IS NOT NULL
    """
  }

  /// The time until the App Store is asked again about a purchase that it does not know, in seconds.
  private static let unknownInterval: TimeInterval = 86_400
  /// How long it is asked again, in seconds since the mark.
  private static let unknownPeriod: TimeInterval = 7 * 86_400

  /// Records that the App Store does not know a purchase, which it may know later.
  static func markUnknown(_ originalTransactionID: String, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET old_proof_asked_at = \(instant), old_proof_unknown_at = \(instant),
      old_proof_due_at = CASE WHEN old_proof_marked_at > \(instant - unknownPeriod)
        THEN \(instant + unknownInterval)::timestamptz END
    WHERE original_transaction_id = \(originalTransactionID) AND old_proof_due_at IS NOT NULL
    """
  }

  /// Records that the App Store has answered about purchases; those without an old proof stay as they are.
  static func markAsked(_ originalTransactionIDs: [String], at instant: Date) -> Query {
    """
    UPDATE subscriptions SET old_proof_asked_at = \(instant), old_proof_due_at = NULL, old_proof_unknown_at = NULL
    WHERE original_transaction_id = ANY(\(originalTransactionIDs))
      AND (old_proof_due_at IS NOT NULL OR old_proof_unknown_at IS NOT NULL)
    """
  }

  /// The number of purchases (`purchases`) of each app (`bundle_id`) that were marked before an instant, and about which the App
  /// Store has not answered. An attempt moves the time at which they are due, not the time of the mark.
  static func waiting(before instant: Date) -> Query {
    """
    SELECT bundle_id, count(*) AS purchases FROM subscriptions
    WHERE old_proof_due_at IS NOT NULL AND old_proof_asked_at IS NULL AND old_proof_marked_at <= \(instant)
    GROUP BY bundle_id ORDER BY bundle_id
    """
  }
}

import FoundationEssentials
import Postgres
import Subscriptions
import Work

extension LedgerEntry {
  /// Whether a transaction of this entry may be an old proof: a client's, or one of the notification history, of which
  /// a refund may come later in the same run. Any notification may tell of a transaction whose end is signed on an
  /// unknown one.
  var hasOldProofs: Bool {
    transactions.contains { mayBeOldProof($0.fact) || $0.fact.mayEndByAnother }
  }

  private func mayBeOldProof(_ fact: TransactionFact) -> Bool {
    (notification == nil || isOfHistory) && isOld(fact)
  }

  private var isOfHistory: Bool { notification?.source == .history }

  private func isOld(_ fact: TransactionFact) -> Bool { instant > fact.signedAt + OldProofRows.age }

  /// The old transaction by which the purchase gives access since this entry; `nil` where it gave the same access
  /// before, or gives none.
  /// - Parameters:
  ///   - facts: the facts of the purchase with those of this entry.
  ///   - former: the facts before it; `nil` where ``hasOldProofs`` is false.
  ///   - before: the purchase as stored before it.
  func oldProof(
    of subscription: Subscription, _ facts: SubscriptionFacts, after former: SubscriptionFacts?,
    _ before: Subscription?
  ) -> UnconfirmedProof? {
    let id = subscription.current.transactionID
    guard let current = facts.transactions[id] else { return nil }
    let isCurrentOld = isOld(current) || current.mayEndByAnother
    guard hasOldProofs || isCurrentOld, let end = subscription.accessEnd(at: instant) else { return nil }
    var proofs: [UnconfirmedProof] = []
    if hasOldProofs, let former {
      let news = Set(transactions.map(\.fact.transactionID)).compactMap { facts.transactions[$0] }.filter {
        fact in
        guard mayBeOldProof(fact) || fact.mayEndByAnother && fact.transactionID == id else { return false }
        guard let known = former.transactions[fact.transactionID] else { return true }
        return fact.supersedes(known)
      }
      // A refund of the current transaction counts, also where an earlier one gave the same access.
      if let fact = news.first(where: { $0.transactionID == id }),
        fact.givesMore(than: former.transactions[id])
      {
        return UnconfirmedProof(fact, isOfHistory: isOfHistory)
      }
      // A refund of a restored purchase counts, whichever of its transactions it is signed on.
      proofs = news.map { UnconfirmedProof($0, isOfHistory: isOfHistory) }
    }
    if let formerEnd = before?.accessEnd(at: instant), formerEnd >= end { return nil }
    // An earlier entry's transaction may give access only now: a later one hid it, or a renewal info or the
    // configuration extends it.
    if isCurrentOld,
      current.mayEndByAnother || mayBeOldProof(current)
        || !transactions.contains(where: { $0.fact.transactionID == id })
    {
      let tells = transactions.contains { $0.fact.transactionID == id }
      proofs.append(UnconfirmedProof(current, isOfHistory: isOfHistory && tells))
    }
    guard let first = proofs.first else { return nil }
    return proofs.dropFirst().reduce(first) { $0.with($1) }
  }
}

/// A proof after which the App Store may have signed a refund of which no notification told.
struct UnconfirmedProof: Sendable {
  var signedAt: Date
  /// Reconciling must have read the history of notifications from here on to rule out a refund. Where another
  /// transaction may have the end, only a history from the purchase on counts.
  var needsHistorySince: Date
  /// Whether the history that reconciling is reading told of it: the rest of the history has what came after it.
  var isOfHistory: Bool

  fileprivate init(_ fact: TransactionFact, isOfHistory: Bool) {
    signedAt = fact.signedAt
    self.isOfHistory = isOfHistory && !fact.mayEndByAnother
    needsHistorySince =
      fact.mayEndByAnother
      ? min(fact.purchaseDate - SubscriptionFacts.chargedAhead, fact.signedAt) : fact.signedAt
  }

  /// Both proofs: asked about from the earlier one on, and covered by a history that covers both.
  func with(_ other: UnconfirmedProof) -> UnconfirmedProof {
    var both = self
    both.signedAt = min(signedAt, other.signedAt)
    both.needsHistorySince = min(needsHistorySince, other.needsHistorySince)
    both.isOfHistory = isOfHistory && other.isOfHistory
    return both
  }
}

extension Subscription {
  /// The end of the access that it gives at an instant; `nil` without access.
  fileprivate func accessEnd(at instant: Date) -> Date? {
    guard phase(at: instant).status.grantsAccess else { return nil }
    let ends = phases.filter { !$0.status.grantsAccess }.compactMap(\.startsAt)
    return ends.first { $0 > instant } ?? .distantFuture
  }
}

extension TransactionFact {
  /// Whether the access may have ended by another transaction: an upgrade replaced this one, or this one is the copy of
  /// a restored purchase, and Apple signs a refund on only one of its copies. Of a subscription only a copy of the first
  /// period tells that it is one.
  fileprivate var mayEndByAnother: Bool {
    if isUpgraded { return true }
    guard transactionID != originalTransactionID else { return false }
    if kind.isRestoredWhole { return true }
    guard kind == .autoRenewable, let originalPurchaseDate else { return false }
    // Apple dates the purchase itself up to some seconds later.
    return abs(purchaseDate.timeIntervalSince(originalPurchaseDate)) < SubscriptionFacts.clockDifference
  }

  /// Whether it gives access, or for as long, where a former fact about the transaction did not: it was unknown, or
  /// known as revoked, upgraded or with an earlier end. A transaction that was upgraded since gives what it gave, but
  /// another one replaced it.
  fileprivate func givesMore(than former: TransactionFact?) -> Bool {
    guard let former else { return true }
    return former.revocationDate != nil && revocationDate == nil || former.isUpgraded != isUpgraded
      || (former.expiresDate ?? .distantFuture) < (expiresDate ?? .distantFuture)
  }
}

/// The statements on the columns `old_proof_…` of `subscriptions`.
package enum OldProofRows {
  /// The age from which a proof is old, in seconds.
  static let age: TimeInterval = 86_400

  /// The longest time since the end of the history that was read, in seconds: three runs of the reconciliation. A
  /// refund since is left to notifications.
  private static let historyAge: TimeInterval = 3 * 3_600

  /// How long the App Store is not asked about a purchase that the history told of, in seconds, unless a client asks:
  /// the end of the run, or of a later one, is its answer (``settleByHistory(of:in:limit:at:)``).
  package static let historyPatience: TimeInterval = 86_400

  /// Marks purchases that give access by an old proof, unless the notification history that was read reaches back to
  /// it, and up to the last hours: that history has a refund since.
  static func mark(
    _ proofs: [(originalTransactionID: String, proof: UnconfirmedProof)], at instant: Date
  ) -> Query {
    """
    UPDATE subscriptions s
    SET old_proof_signed_at = new.signed_at, old_proof_marked_at = \(instant), old_proof_due_at = new.due_at,
      old_proof_asked_at = NULL, old_proof_unknown_at = NULL
    FROM unnest(\(proofs.map(\.originalTransactionID))::text[], \(proofs.map(\.proof.signedAt))::timestamptz[],
      \(proofs.map(\.proof.needsHistorySince))::timestamptz[],
      \(proofs.map { $0.proof.isOfHistory ? instant + historyPatience : instant })::timestamptz[]) AS new (id, signed_at, since, due_at)
    WHERE s.original_transaction_id = new.id AND NOT EXISTS (
      SELECT FROM reconcile_positions p
      WHERE p.bundle_id = s.bundle_id AND p.environment = s.environment AND p.history_begins_at <= new.since
        AND p.history_read_until BETWEEN \(instant - historyAge) AND \(instant + ServiceClock.serverTolerance))
    """
  }

  /// Forgets the marks of some purchases that the history told of, once reconciling has read it up to the last hours.
  /// Each row of the answer is a purchase.
  package static func settleByHistory(
    of bundleID: String, in environment: String, limit: Int, at instant: Date
  ) -> Query {
    """
    UPDATE subscriptions SET old_proof_signed_at = NULL, old_proof_marked_at = NULL, old_proof_due_at = NULL
    WHERE original_transaction_id IN (
      SELECT original_transaction_id FROM subscriptions
      WHERE bundle_id = \(bundleID) AND environment = \(environment) AND old_proof_due_at IS NOT NULL
        AND \(unescaped: isLeftToHistory) AND EXISTS (
          SELECT FROM reconcile_positions p
          WHERE p.bundle_id = \(bundleID) AND p.environment = \(environment)
            AND p.history_read_until BETWEEN \(instant - historyAge) AND \(instant + ServiceClock.serverTolerance))
      LIMIT \(limit) FOR UPDATE SKIP LOCKED)
    RETURNING original_transaction_id
    """
  }

  /// Whether the history told of a purchase, and the App Store was not asked about it since.
  package static let isLeftToHistory: StaticString =
    "old_proof_due_at = old_proof_marked_at + interval '86400 seconds' AND old_proof_asked_at IS NULL"

  /// Records that the App Store has told of purchases, each with the transactions that it signed. Those without an old
  /// proof stay as they are, and so do those of whose current transaction it told nothing since the proof.
  package static func markTold(
    _ told: [(originalTransactionID: String, fact: TransactionFact)], at instant: Date
  ) -> Query {
    """
    UPDATE subscriptions s SET old_proof_asked_at = \(instant), old_proof_due_at = NULL, old_proof_unknown_at = NULL
    FROM unnest(\(told.map(\.originalTransactionID))::text[], \(told.map(\.fact.transactionID))::text[],
      \(told.map(\.fact.signedAt))::timestamptz[]) AS told (id, transaction_id, signed_at)
    WHERE s.original_transaction_id = told.id AND s.transaction_id = told.transaction_id
      AND s.old_proof_signed_at <= told.signed_at
      AND (s.old_proof_due_at IS NOT NULL OR s.old_proof_unknown_at IS NOT NULL)
    """
  }
}

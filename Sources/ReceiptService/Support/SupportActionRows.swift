import FoundationEssentials
import Postgres
import Subscriptions

/// The table `support_actions`.
enum SupportActionRows {
  /// Purchases that changed hands or are shared: every move is written down with both customers.
  static func insertMoves(_ moves: [OwnershipMove], at instant: Date) -> Query {
    let transactions = moves.map(\.subscription.current)
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, from_customer,
        to_customer, customer_kind, by, reason, at)
      SELECT *, \(instant)::timestamptz FROM unnest(
        \(moves.map(\.action))::text[],
        \(transactions.map(\.bundleID))::text[], \(transactions.map(\.originalTransactionID))::text[],
        \(moves.map { $0.previous?.id })::text[], \(moves.map(\.customer.id))::text[],
        \(moves.map(\.customer.kindWord))::text[], \(moves.map(\.by))::text[],
        \(moves.map(\.explanation))::text[])
      """
  }
}

extension SupportActionRows {
  /// Something that a person did.
  static func insert(_ actions: [SupportAction], by author: SupportAuthor, at instant: Date) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, from_customer, to_customer, customer_kind, details,
      by, reason, at)
    SELECT *, \(author.by)::text, \(author.reason)::text, \(instant)::timestamptz FROM unnest(
      \(actions.map(\.name))::text[], \(actions.map(\.bundleID))::text[],
      \(actions.map { $0.from?.id })::text[], \(actions.map { $0.to?.id })::text[],
      \(actions.map { ($0.to ?? $0.from)?.kindWord })::text[], \(actions.map(\.detailsAsJSON))::jsonb[])
    """
  }

  /// The record of an entry of the ledger, if it has one.
  static func insert(_ entry: LedgerEntry, _ receipt: LedgerReceipt) -> Query? {
    switch entry.action {
    case .replay(let author, let reason): insertReplay(entry, receipt, by: author, reason: reason)
    case .overdueRenewal: insertRepair(entry, receipt)
    case nil: nil
    }
  }

  /// A purchase that the store's own status corrected: no notification tells of it.
  private static func insertRepair(_ entry: LedgerEntry, _ receipt: LedgerReceipt) -> Query? {
    guard let bundleID = entry.app?.bundleID,
      let repair = ReconcileReport.Repair(receipt, cause: "status", at: entry.instant)
    else { return nil }
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, reason, at)
      VALUES ('reconcile', \(bundleID), \(repair.originalTransactionID), 'receiptd',
        \("its renewal was overdue without news, so the App Store was asked: "
          + "\(repair.before ?? "unknown") -> \(repair.after)"), \(entry.instant))
      """
  }

  /// A notification that a person had processed again.
  private static func insertReplay(
    _ entry: LedgerEntry, _ receipt: LedgerReceipt, by author: String, reason: String
  ) -> Query? {
    guard let uuid = entry.notification?.uuid, let outcome = receipt.outcome else { return nil }
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, reason, details, at)
      SELECT 'replay', bundle_id, original_transaction_id, \(author), \(reason),
        jsonb_build_object('notification_uuid', notification_uuid, 'outcome', \(outcome)::text), \(entry.instant)
      FROM notifications WHERE notification_uuid = \(uuid)
      """
  }
}

extension OwnershipMove {
  fileprivate var action: String {
    if case .room = cause { "share" } else { "transfer" }
  }

  fileprivate var by: String {
    switch cause {
    case .support(let author): author.by
    case .token: "app-store"
    case .policy, .room: "policy"
    }
  }

  fileprivate var explanation: String {
    switch cause {
    case .support(let author): author.reason
    case .token: "the App Store signed another appAccountToken"
    case .policy: "another customer proved the purchase and the app's transfer policy moves it"
    case .room: "another device proved the purchase and the app lets several have it"
    }
  }
}

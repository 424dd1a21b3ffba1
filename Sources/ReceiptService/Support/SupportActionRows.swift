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

  /// A purchase that the store's own status corrected: no notification tells of it.
  static func insertRepair(
    _ repair: ReconcileReport.Repair, bundleID: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, reason, at)
    VALUES ('reconcile', \(bundleID), \(repair.originalTransactionID), 'receiptd',
      \("its renewal was overdue without news, so the App Store was asked: "
        + "\(repair.before ?? "unknown") -> \(repair.after)"), \(instant))
    """
  }

  /// A notification that a person had processed again.
  static func insertReplay(
    _ uuid: UUID, outcome: String, by author: String, reason: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, reason, details, at)
    SELECT 'replay', bundle_id, original_transaction_id, \(author), \(reason),
      jsonb_build_object('notification_uuid', notification_uuid, 'outcome', \(outcome)::text), \(instant)
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

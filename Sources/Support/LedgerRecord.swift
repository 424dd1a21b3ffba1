import Actions
import Customers
import Foundation
import JSON
import Ledger
import Postgres
import Subscriptions
import Text

/// Records in `support_actions` what the ledger did.
package struct LedgerRecord: LedgerEffect {
  package init() {}

  package func statements(for changes: LedgerChanges) -> [Query] {
    (changes.moves.isEmpty ? [] : [Self.insertMoves(changes.moves, at: changes.instant)])
      + changes.entries.compactMap { Self.insert($0.entry, $0.receipt) }
  }

  /// Records purchases that were transferred or shared, with both customers.
  private static func insertMoves(_ moves: [OwnershipMove], at instant: Date) -> Query {
    let transactions = moves.map(\.subscription.current)
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, from_customer,
        to_customer, customer_kind, by, actor, person_id, reason, at)
      SELECT *, \(instant)::timestamptz FROM unnest(
        \(moves.map(\.action))::text[],
        \(transactions.map(\.bundleID))::text[], \(transactions.map(\.originalTransactionID))::text[],
        \(moves.map { $0.previous?.id })::text[], \(moves.map(\.customer.id))::text[],
        \(moves.map(\.customer.kindWord))::text[], \(moves.map(\.actor.name))::text[],
        \(moves.map(\.actor.kind))::text[], \(moves.map(\.actor.personID))::bigint[],
        \(moves.map(\.explanation))::text[])
      """
  }

  /// The record of a ledger entry, if the entry needs one.
  private static func insert(_ entry: LedgerEntry, _ receipt: LedgerReceipt) -> Query? {
    switch entry.cause {
    case .replay(_, _, let author?): insertReplay(entry, receipt, by: author)
    case .answer(.overdueRenewal):
      insertRepair(entry, receipt, because: "no notification about an overdue renewal")
    case .answer(.oldProof): insertRepair(entry, receipt, because: "known only by an old proof")
    case .answer(.lookup(let actor, let changes)): insertLookup(entry, receipt, by: actor, changes)
    default: nil
    }
  }

  /// Records a purchase that was corrected from the App Store's status, without a notification.
  private static func insertRepair(
    _ entry: LedgerEntry, _ receipt: LedgerReceipt, because reason: String
  ) -> Query? {
    guard let bundleID = entry.app?.bundleID,
      let repair = PurchaseRepair(receipt, cause: "status", at: entry.instant)
    else { return nil }
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, reason, at)
      VALUES ('reconcile', \(bundleID), \(repair.originalTransactionID), 'receiptd',
        \("\(reason); status from the App Store: "
          + "\(repair.before ?? "unknown") -> \(repair.after)"), \(entry.instant))
      """
  }

  /// Records what a look-up of support repaired.
  private static func insertLookup(
    _ entry: LedgerEntry, _ receipt: LedgerReceipt, by actor: SupportActor, _ changes: [FieldChange]
  ) -> Query? {
    guard let stored = receipt.subscription else { return nil }
    let changes = receipt.changes(changes, at: entry.instant)
    guard !changes.isEmpty else { return nil }
    let action = SupportAction(
      name: SupportOperation.find.rawValue, bundleID: stored.bundleID,
      originalTransactionID: stored.originalTransactionID,
      details: [stored.originalTransactionID: .array(changes.map { .string($0.description) })])
    return SupportActionRows.insert([action], by: .lookup(by: actor), at: entry.instant)
  }

  /// Records a replay of a notification by support.
  private static func insertReplay(
    _ entry: LedgerEntry, _ receipt: LedgerReceipt, by author: SupportAuthor
  ) -> Query? {
    guard let uuid = entry.notification?.uuid, let outcome = receipt.outcome else { return nil }
    return """
      INSERT INTO support_actions (action, bundle_id, original_transaction_id, by, actor, person_id, reason, details, at)
      SELECT 'replay', bundle_id, original_transaction_id, \(author.by), \(author.actor.kind),
        \(author.actor.personID)::bigint, \(author.reason),
        jsonb_build_object('notification_uuid', notification_uuid, 'outcome', \(outcome)::text), \(entry.instant)
      FROM notifications WHERE notification_uuid = \(uuid)
      """
  }
}

extension OwnershipMove {
  fileprivate var action: String {
    if case .joined = cause { "share" } else { "transfer" }
  }

  fileprivate var actor: SupportActor {
    switch cause {
    case .support(let author): author.actor
    case .token: .rule("app-store")
    case .policy, .joined: .rule("policy")
    }
  }

  fileprivate var explanation: String {
    switch cause {
    case .support(let author): author.reason
    case .token: "the App Store signed another appAccountToken"
    case .policy where customer.deviceID != nil:
      "another device joined the purchase and replaces the one that was not seen for the longest time"
    case .policy: "another customer proved the purchase and the app's transfer policy moves it"
    case .joined: "another device joined the purchase and the app lets several have it"
    }
  }
}

extension SupportAuthor {
  /// The author of what a look-up at the App Store repaired. The reason has no id: an order leads to its customer.
  fileprivate static func lookup(by actor: SupportActor) -> SupportAuthor {
    let reason = "asked the App Store about an order id"
    // An operator's name may not be fit for the record.
    return (try? SupportAuthor(by: actor, reason: reason)) ?? SupportAuthor(rule: "receiptd", reason: reason)
  }
}

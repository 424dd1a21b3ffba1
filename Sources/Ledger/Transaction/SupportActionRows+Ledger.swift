import Actions
import Customers
import Foundation
import JSON
import Postgres
import Subscriptions
import Text

/// The records of what the ledger did.
extension SupportActionRows {
  /// Records purchases that were transferred or shared, with both customers.
  static func insertMoves(_ moves: [OwnershipMove], at instant: Date) -> Query {
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
  static func insert(_ entry: LedgerEntry, _ receipt: LedgerReceipt) -> Query? {
    switch entry.action {
    case .replay(let author): insertReplay(entry, receipt, by: author)
    case .overdueRenewal: insertRepair(entry, receipt, because: "no notification about an overdue renewal")
    case .oldProof: insertRepair(entry, receipt, because: "known only by an old proof")
    case .lookup(let actor, let changes): insertLookup(entry, receipt, by: actor, changes)
    case nil: nil
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
    return insert([action], by: .lookup(by: actor), at: entry.instant)
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
    if case .room = cause { "share" } else { "transfer" }
  }

  fileprivate var actor: SupportActor {
    switch cause {
    case .support(let author): author.actor
    case .token: .rule("app-store")
    case .policy, .room: .rule("policy")
    }
  }

  fileprivate var explanation: String {
    switch cause {
    case .support(let author): author.reason
    case .token: "the App Store signed another appAccountToken"
    case .policy where customer.deviceID != nil:
      "another device joined the purchase and replaces the one that was not seen for the longest time"
    case .policy: "another customer proved the purchase and the app's transfer policy moves it"
    case .room: "another device joined the purchase and the app lets several have it"
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

/// A purchase whose row was corrected.
package struct PurchaseRepair: Sendable {
  /// The purchase.
  package var originalTransactionID: String
  /// The source of the correction: a notification's type and subtype, or `status`.
  package var cause: String
  /// Status and end before; `nil` if the purchase was not known.
  package var before: String?
  /// Status and end now.
  package var after: String

  /// `nil` if the facts changed nothing that a client sees.
  package init?(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
    guard receipt.isNews, let now = receipt.subscription else { return nil }
    before = receipt.previous.map { $0.subscription.summary(at: instant) }
    after = now.subscription.summary(at: instant)
    guard before != after else { return nil }
    originalTransactionID = now.originalTransactionID
    self.cause = cause
  }
}

extension Subscription {
  /// The product, status and end in words.
  fileprivate func summary(at instant: Date) -> String {
    let phase = phase(at: instant)
    var words = "\(productID(at: instant)) \(phase.status.rawValue)"
    if phase.storeStatus.rawValue != phase.status.rawValue { words += "/\(phase.storeStatus.rawValue)" }
    if let end = storeAccessEnds { words += " until \(end.rfc3339)" }
    if willRenew(at: instant), let renewsAs {
      words += renewsAs == productID ? ", renews" : ", renews as \(renewsAs)"
    }
    return words
  }
}

/// A field of a purchase that was corrected.
package struct FieldChange: Sendable, Hashable, CustomStringConvertible {
  package var field: String
  /// The former value; `nil` for none.
  package var before: String?
  /// The value now; `nil` for none.
  package var after: String?

  package init(field: String, before: String? = nil, after: String? = nil) {
    self.field = field
    self.before = before
    self.after = after
  }

  package var description: String { "\(field): \(before ?? "none") -> \(after ?? "none")" }
}

extension FieldChange {
  /// What differs between two states of a purchase, under the names of the customer report.
  package static func changes(
    from before: StoredSubscription?, to after: StoredSubscription?, at instant: Date
  ) -> [FieldChange] {
    let (old, new) = (fields(before, at: instant), fields(after, at: instant))
    return zip(old, new).compactMap { old, new in
      old.value == new.value ? nil : FieldChange(field: new.name, before: old.value, after: new.value)
    }
  }

  private static func fields(
    _ stored: StoredSubscription?, at instant: Date
  ) -> [(name: String, value: String?)] {
    let subscription = stored?.subscription
    let current = subscription?.current
    let phase = subscription?.phase(at: instant)
    return [
      ("status", phase?.status.rawValue), ("storeStatus", phase?.storeStatus.rawValue),
      ("productID", subscription?.productID(at: instant)), ("tier", subscription?.tier(at: instant)),
      ("transactionID", current?.transactionID), ("expiryDate", current?.expiresDate?.rfc3339),
      ("gracePeriodExpiryDate", subscription?.graceExpiresDate?.rfc3339),
      ("revokedAt", current?.revocationDate?.rfc3339),
      ("willRenew", subscription.map { $0.willRenew(at: instant) ? "yes" : "no" }),
      ("renewsAs", subscription?.renewsAs), ("ownership", current?.ownership),
      ("owner", stored?.owner?.customer.id),
    ]
  }
}

extension FieldChange: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("after", after)
      json.member("before", before)
      json.member("field", field)
    }
  }
}

extension LedgerReceipt {
  /// What differs between the purchase before and now.
  /// - Parameter news: the changes beside the purchase's row.
  package func changes(_ news: [FieldChange], at instant: Date) -> [FieldChange] {
    let current = subscription?.subscription.current.transactionID
    return FieldChange.changes(from: previous, to: subscription, at: instant)
      + news.filter { change in current.map { change.field != "refund of \($0)" } ?? true }
  }
}

import Foundation
import JSON
import Postgres
import Subscriptions

/// An action that affects a customer, recorded in the table `support_actions`.
struct SupportAction: Sendable {
  /// The value of the column `action`: the command's name.
  var name: String
  /// The app; `nil` if the action is about people.
  var bundleID: String?
  /// The purchase; `nil` if the action is about a customer.
  var originalTransactionID: String?
  /// The customer that lost something.
  var from: Customer?
  /// The customer that gained something.
  var to: Customer?
  /// Further values for the column `details`.
  var details: [String: JSONValue] = [:]

  var detailsAsJSON: JSONText? {
    guard !details.isEmpty, let json = try? JSONEncoder().encode(details) else { return nil }
    return JSONText(utf8: json)
  }
}

/// The author of a support action, and the reason. Both are recorded permanently.
package struct SupportAuthor: Sendable, Hashable {
  /// The person, machine or operator, or the rule of receiptd.
  package let actor: SupportActor
  /// The reason in the actor's words.
  package let reason: String

  /// The actor's name.
  package var by: String { actor.name }

  /// - Throws: if the reason, or a name that the caller chose, is empty, too long for a log line, or has control or invisible characters; for
  ///   an operator with the name of a rule.
  package init(by actor: SupportActor, reason: String) throws(SupportRefusal) {
    switch actor {
    case .machine(let name?): try Self.check(name, named: "by", maximum: 200)
    case .operatorNamed(let name):
      try Self.check(name, named: "by", maximum: 200)
      guard !PersonName.isReserved(name) else {
        throw .invalid(
          "'\(name)' is the name of a part of receiptd in the record; give another one with --by.")
      }
    case .person, .machine(nil), .rule: break
    }
    try Self.check(reason, named: "reason", maximum: 1_000)
    self.actor = actor
    self.reason = reason
  }

  /// The author of an automatic action.
  private init(rule: String, reason: String) {
    actor = .rule(rule)
    self.reason = reason
  }

  /// The author of what a look-up at the App Store repaired. The reason has no id: an order leads to its customer.
  static func lookup(by actor: SupportActor) -> SupportAuthor {
    let reason = "asked the App Store about an order id"
    // An operator's name may not be fit for the record.
    return (try? SupportAuthor(by: actor, reason: reason)) ?? SupportAuthor(rule: "receiptd", reason: reason)
  }

  /// The author if a device replaces its own secret.
  static let accountProof = SupportAuthor(
    rule: "policy", reason: "a signed proof of the device's Apple Account came with another secret")

  /// The author of grandfather grants.
  static func grandfather(before date: String) -> SupportAuthor {
    SupportAuthor(rule: GrantRows.grandfather, reason: "had the app before \(date)")
  }

  /// The author of awards to customers from before receiptd.
  static func adoption(_ reason: String) -> SupportAuthor { SupportAuthor(rule: "adopt", reason: reason) }

  /// The author of an answer to the App Store about a refund.
  /// - Parameter sentence: what was answered, or why nothing was.
  static func refundPolicy(_ sentence: String) -> SupportAuthor {
    SupportAuthor(rule: "policy", reason: sentence)
  }

  private static func check(
    _ text: String, named name: String, maximum: Int
  ) throws(SupportRefusal) {
    guard text.utf8.contains(where: { $0 != UInt8(ascii: " ") }) else {
      throw .invalid("'\(name)' is needed: it is recorded with the action.")
    }
    guard text.utf8.count <= maximum, !text.hasControlCharacters else {
      throw .invalid("'\(name)' must be at most \(maximum) bytes without control or invisible characters.")
    }
  }
}

/// Statements on the table `support_actions`.
enum SupportActionRows {
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

  /// Records actions of support.
  static func insert(_ actions: [SupportAction], by author: SupportAuthor, at instant: Date) -> Query {
    """
    INSERT INTO support_actions (action, bundle_id, original_transaction_id, from_customer, to_customer,
      customer_kind, details, by, actor, person_id, reason, at)
    SELECT *, \(author.by)::text, \(author.actor.kind)::text, \(author.actor.personID)::bigint,
      \(author.reason)::text, \(instant)::timestamptz FROM unnest(
      \(actions.map(\.name))::text[], \(actions.map(\.bundleID))::text[],
      \(actions.map(\.originalTransactionID))::text[],
      \(actions.map { $0.from?.id })::text[], \(actions.map { $0.to?.id })::text[],
      \(actions.map { ($0.to ?? $0.from)?.kindWord })::text[], \(actions.map(\.detailsAsJSON))::jsonb[])
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
      let repair = ReconcileReport.Repair(receipt, cause: "status", at: entry.instant)
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

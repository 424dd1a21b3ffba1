import Customers
import Foundation
import JSON
import Subscriptions
import Text

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

import Customers
import Foundation
import HTTP
import JSON
import Subscriptions
import Text

/// The result of asking the App Store about a customer's purchases.
package struct RefreshReport: Sendable {
  /// The id that was asked about.
  let asked: String
  /// The purchases that the App Store told of, in the order of their ids.
  var purchases: [RefreshedPurchase] = []
  /// Why a part of the App Store's answer is missing; one reason for each app and environment.
  var failures: [String] = []

  /// Whether the App Store answered all requests.
  package var isComplete: Bool { failures.isEmpty }
}

/// A purchase as the App Store told.
struct RefreshedPurchase: Sendable {
  var originalTransactionID: String
  var bundleID: String
  var environment: String
  /// What differed; empty if nothing did.
  var changes: [FieldChange]
}

/// A field of a purchase that was corrected.
struct FieldChange: Sendable, Hashable, CustomStringConvertible {
  var field: String
  /// The former value; `nil` for none.
  var before: String?
  /// The value now; `nil` for none.
  var after: String?

  var description: String { "\(field): \(before ?? "none") -> \(after ?? "none")" }
}

extension FieldChange {
  /// What differs between two states of a purchase, under the names of the customer report.
  static func changes(
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

extension RefreshReport: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  package var description: String {
    var output = TerminalText()
    for purchase in purchases {
      output.heading("\(purchase.originalTransactionID) (\(purchase.bundleID), \(purchase.environment))")
      for change in purchase.changes {
        output.line(change.description)
      }
      if purchase.changes.isEmpty { output.line("nothing differed") }
    }
    for failure in failures { output.line("INCOMPLETE: \(failure)", indent: 0) }
    return output.text
  }
}

extension RefreshReport: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("failures", failures)
      json.member("purchases", purchases)
    }
  }
}

extension RefreshedPurchase: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("changes", changes)
      json.member("environment", environment)
      json.member("originalTransactionID", originalTransactionID)
    }
  }
}

extension FieldChange: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("after", after)
      json.member("before", before)
      json.member("field", field)
    }
  }
}

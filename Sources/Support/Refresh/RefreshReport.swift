import Customers
import Foundation
import HTTP
import JSON
import Ledger
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

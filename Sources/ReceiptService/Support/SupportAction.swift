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

import FoundationEssentials
import Postgres
import Subscriptions

/// Something that was done to customers, for the table `support_actions`.
struct SupportAction: Sendable {
  /// The word of the command.
  var name: String
  var bundleID: String
  /// Who lost something.
  var from: Customer?
  /// Who gained something.
  var to: Customer?
  /// What else belongs to it.
  var details: [String: JSONValue] = [:]

  var detailsAsJSON: JSONText? {
    guard !details.isEmpty, let json = try? JSONEncoder().encode(details) else { return nil }
    return JSONText(utf8: json)
  }
}

import Foundation

/// The result of asking the App Store about a customer's purchases.
public struct RefreshReport: Sendable {
  /// The id that was asked about.
  let asked: String
  /// The purchases that the App Store told of, in the order of their ids.
  var purchases: [RefreshedPurchase] = []
  /// Why a part of the App Store's answer is missing; one reason for each app and environment.
  var failures: [String] = []

  /// Whether the App Store answered all requests.
  public var isComplete: Bool { failures.isEmpty }
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

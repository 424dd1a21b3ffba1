import Foundation
import Subscriptions

/// A claim to access that a legacy table or an imported file makes for a customer.
struct LegacyClaim: Sendable {
  /// The origin of a claim; the value of the column `source`.
  enum Source: String, Sendable, Hashable {
    case profiles
    case userPreferences = "user_preferences"
    case subscriptions
    case file
  }

  /// The identity of a claim within one app.
  struct Key: Sendable, Hashable {
    var customer: Customer
    /// The transaction that the claim names; empty if it names none.
    var transactionID: String
  }

  /// The award for a claim that names no transaction.
  struct Award: Sendable, Hashable {
    var tier: String
    /// `nil` for no end.
    var endsAt: Date?
    var reason: String
  }

  var key: Key
  var source: Source
  /// The purchase, if the file has a transaction that Apple signed.
  var purchase: ProvenPurchase?
  /// `nil` if the claim names a transaction.
  var award: Award?
  /// Whether a client wrote it, without a transaction id, after the first adoption.
  var isOfClient = false
}

import AppStore
import Subscriptions

/// Data signed by the App Store that proves which Apple Account a device has.
///
/// Only data that the client sent counts. A transaction that the server looked up by a bare id proves nothing about the
/// caller.
struct AccountProof: Sendable {
  /// Ids are unique within an environment only.
  let environment: String
  /// Apple's `appTransactionId`; transactions signed before 2025 may lack it.
  let appTransactionID: String?
  /// The purchase, if the client sent a transaction.
  let originalTransactionID: String?

  /// - Returns: `nil` for an app transaction without an `appTransactionId`.
  init?(_ signed: Signed<AppTransaction>) {
    guard let account = signed.payload.appTransactionId?.storable else { return nil }
    environment = signed.payload.receiptType.rawValue.storable
    appTransactionID = account
    originalTransactionID = nil
  }

  /// - Parameter purchase: from a signed transaction that the client sent.
  init?(_ purchase: ProvenPurchase) {
    guard let fact = purchase.transactions.first?.fact else { return nil }
    environment = fact.environment.rawValue
    appTransactionID = fact.appTransactionID
    originalTransactionID = fact.originalTransactionID
  }
}

import AppStore
import Subscriptions

/// A verified signature of the App Store that names an Apple Account, beside a device's secret.
///
/// Only signed data that the client sent is one. A transaction that the server looked up by a bare id proves nothing
/// about the caller.
struct AccountProof: Sendable {
  /// Production and the sandbox number their accounts and purchases apart.
  let environment: String
  /// Apple's `appTransactionId`; transactions signed before 2025 may lack it.
  let appTransactionID: String?
  /// The purchase, where a transaction was sent.
  let originalTransactionID: String?

  /// - Returns: `nil` for an app transaction that names no account.
  init?(_ signed: Signed<AppTransaction>) {
    guard let account = signed.payload.appTransactionId?.storable else { return nil }
    environment = signed.payload.receiptType.rawValue.storable
    appTransactionID = account
    originalTransactionID = nil
  }

  /// - Parameter purchase: of a signed transaction that the client sent.
  init?(_ purchase: ProvenPurchase) {
    guard let fact = purchase.transactions.first?.fact else { return nil }
    environment = fact.environment.rawValue
    appTransactionID = fact.appTransactionID
    originalTransactionID = fact.originalTransactionID
  }
}

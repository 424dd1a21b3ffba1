import Subscriptions

/// A verified purchase: signed by Apple, of a configured app and in an environment that the app accepts.
struct ProvenPurchase: Sendable {
  var app: App
  var originalTransactionID: String
  var productID: String
  var transactions: [TransactionRecord]
  var renewals: [RenewalRecord]
}

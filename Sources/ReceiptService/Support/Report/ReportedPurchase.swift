import Foundation

/// A subscription or a non-consumable purchase, in a report.
struct ReportedPurchase: Sendable {
  var originalTransactionID: String
  var transactionID: String
  var bundleID: String
  var productID: String
  var tier: String?
  var status: String
  var storeStatus: String
  var purchaseDate: Date
  var expiryDate: Date?
  var gracePeriodExpiryDate: Date?
  var revokedAt: Date?
  var environment: String
  var ownership: String
  var willRenew: Bool
  var renewsAs: String?
  /// Why the owner owns it: the column `subscriptions.owned_because`.
  var ownedBecause: String?
  /// The customer that support took it from.
  var takenFrom: String?
  /// The owner, if this customer shares the purchase.
  var sharedBy: String?
  var opensSomething: Bool
  /// Why it is not counted; `null` if it is.
  var note: String?
}

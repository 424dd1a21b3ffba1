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
  /// The product of a period that is charged already and begins at `purchaseDate`; nil if the period runs.
  var upcomingProductID: String?
  /// The start of the current period.
  var purchaseDate: Date
  var expiryDate: Date?
  var gracePeriodExpiryDate: Date?
  /// When Apple stops to charge again after a failed charge; nil if it is not trying.
  var chargeRetriesUntil: Date?
  var revokedAt: Date?
  var environment: String
  var ownership: String
  /// The end of the number of the Apple Account (`appTransactionId`) that has it; nil if Apple signed none.
  var appleAccount: String?
  var willRenew: Bool
  var renewsAs: String?
  /// Prices and the next period.
  var plan: PurchasePlan
  /// Whether the App Store can be asked about it: the app has a key.
  var hasStoreKey: Bool
  /// Why the owner owns it: the column `subscriptions.owned_because`.
  var ownedBecause: String?
  /// The customer that support took it from.
  var takenFrom: String?
  /// When the customer that owned it was erased.
  var erasedAt: Date?
  /// The devices that share it, the one that has had it for the longest time first; empty if one device has it.
  var devices: [ReportedHolder]
  /// The App Store's questions about refunds of it, the open ones first.
  var refundRequests: [ReportedRefundRequest]
  var opensSomething: Bool
  /// Why it is not counted; `null` if it is.
  var note: String?
}

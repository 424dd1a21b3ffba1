import AppStore
import Foundation

/// The stored state of a subscription.
struct StoreSubscription: Sendable {
  /// The state of billing.
  ///
  /// ```
  /// settled ── charge fails ──▶ grace(until) ── unpaid ──▶ retrying ── given up ──▶ ended
  ///    ▲ │                          │                         │                       │
  ///    │ └──────────── expires, renewal off ──────────────────┼──────────────────────▶│
  ///    └────────────────── recovers, renews, is bought again ─┴───────────────────────┘
  /// ```
  enum Billing: Hashable, Sendable {
    /// Paid, or not yet due.
    case settled
    /// A charge failed; access continues until the date.
    case grace(until: Date)
    /// A charge failed and is retried; access ends with the paid period.
    case retrying
    /// No further charge follows.
    case ended(ExpirationIntent)
  }

  struct PriceIncrease: Hashable, Sendable {
    var price: Int64
    var isAccepted: Bool
  }

  let originalTransactionID: String
  let bundleID: String
  /// Oldest first; the last one is current, and a replaced one never becomes current again.
  var transactionIDs: [String]
  var recentStart: Date
  var renewsAs: String
  var autoRenews: Bool
  var billing: Billing
  var priceIncrease: PriceIncrease?
  /// The redeemed offer for the next period.
  var nextOffer: StoreOffer?
  /// The times of extension by the App Store Server API, oldest first.
  var extensionDates: [Date] = []
  /// For a family member's subscription: the purchaser's transaction that the latest one copies.
  var sharedTransactionID: String?
}

/// The true state of a purchase, for tests to compare with a server's conclusions.
public struct PurchaseTruth: Codable, Hashable, Sendable {
  /// The purchase.
  public var originalTransactionID: String
  /// Its latest transaction.
  public var transactionID: String
  /// The app.
  public var bundleID: String
  /// Production or sandbox.
  public var environment: Environment
  /// The product of the latest transaction.
  public var productID: String
  /// The product that is paid for at ``asOf``. It differs from ``productID`` after a downgrade that was charged ahead.
  public var entitledProductID: String
  /// The kind of product.
  public var type: ProductType?
  /// Bought or shared.
  public var ownership: InAppOwnershipType?
  /// The app's own id of the customer.
  public var appAccountToken: UUID?
  /// The purchase date of the latest transaction.
  public var purchaseDate: Date
  /// The end of the paid period; nil if it never expires.
  public var expiresDate: Date?
  /// The end of billing grace after a failed charge.
  public var gracePeriodExpiresDate: Date?
  /// The store's status at ``asOf``; a one-time purchase is active or revoked.
  public var status: SubscriptionStatus
  /// Whether the customer has access at ``asOf``.
  public var grantsAccess: Bool
  /// Whether it renews.
  public var autoRenews: Bool
  /// The product of the next period; nil if it does not renew.
  public var renewsAs: String?
  /// The time of this state.
  public var asOf: Date
}

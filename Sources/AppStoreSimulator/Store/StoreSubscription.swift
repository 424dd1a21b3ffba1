import AppStore
import FoundationEssentials

/// A subscription as the store keeps it.
struct StoreSubscription: Sendable {
  /// Where the charging stands.
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
    /// A charge failed; access goes on until the date.
    case grace(until: Date)
    /// A charge failed and is tried again; no access beyond the paid time.
    case retrying
    /// Nothing will be charged again.
    case ended(ExpirationIntent)
  }

  struct PriceIncrease: Hashable, Sendable {
    var price: Int64
    var isAccepted: Bool
  }

  let originalTransactionID: String
  let bundleID: String
  /// Oldest first; the last one is current, and what it replaced never comes back.
  var transactionIDs: [String]
  var recentStart: Date
  var renewsAs: String
  var autoRenews: Bool
  var billing: Billing
  var priceIncrease: PriceIncrease?
  /// The offer that was redeemed for the next period.
  var nextOffer: StoreOffer?
  /// Of a family member's: the purchaser's transaction that the latest one stands for.
  var sharedTransactionID: String?
}

/// What is true of a purchase, in the store's own words, for tests to compare with what a server concluded.
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
  /// The product that was paid for at ``asOf``. It differs from ``productID`` where a downgrade was charged
  /// ahead and its period has not begun.
  public var entitledProductID: String
  /// Its kind.
  public var type: ProductType?
  /// Bought or shared.
  public var ownership: InAppOwnershipType?
  /// Whose it is, as the app said when it was bought.
  public var appAccountToken: UUID?
  /// When the latest transaction was charged.
  public var purchaseDate: Date
  /// Until when it is paid; nil for what never expires.
  public var expiresDate: Date?
  /// Until when billing grace lasts, where a charge has failed and was given some.
  public var gracePeriodExpiresDate: Date?
  /// The store's status at ``asOf``; a one-time purchase is active or revoked.
  public var status: SubscriptionStatus
  /// Whether the customer may use it at ``asOf``.
  public var grantsAccess: Bool
  /// Whether it will renew.
  public var autoRenews: Bool
  /// What it will renew as; nil where it will not.
  public var renewsAs: String?
  /// When this was so.
  public var asOf: Date
}

import FoundationEssentials

/// A signed transaction (Apple's `JWSTransactionDecodedPayload`).
///
/// Prices are milliunits: 4990 is 4.99.
public struct TransactionInfo: SignedPayload {
  // MARK: Identity

  /// The transaction.
  public var transactionId: String
  /// The first transaction of this purchase: the subscription's name over all its renewals.
  public var originalTransactionId: String
  /// The app.
  public var bundleId: String
  /// The product.
  public var productId: String
  /// When the App Store charged, or when a restored or family-shared purchase was handed over.
  @Milliseconds public var purchaseDate: Date
  /// When Apple signed this state of the transaction. Of two states the later one is the truth.
  @Milliseconds public var signedDate: Date
  /// Where it took place.
  public var environment: Environment

  // MARK: What was bought

  /// What kind of product.
  public var type: ProductType?
  /// Whose purchase it is.
  public var inAppOwnershipType: InAppOwnershipType?
  /// How many.
  public var quantity: Int32?
  /// The subscription group.
  public var subscriptionGroupIdentifier: String?
  /// One purchase or renewal of a subscription, across devices.
  public var webOrderLineItemId: String?
  /// Purchase or renewal.
  public var transactionReason: TransactionReason?
  /// The purchase date of the original transaction.
  @Milliseconds public var originalPurchaseDate: Date? = nil
  /// The end of the paid period of a subscription.
  @Milliseconds public var expiresDate: Date? = nil
  /// The customer upgraded to another subscription: this one gives way to it.
  public var isUpgraded: Bool?
  /// The original transaction before a migration.
  public var previousOriginalTransactionId: String?

  // MARK: Whose it is

  /// The customer's id as the app gave it. See `customerToken` for one without the all-zero value.
  public var appAccountToken: UUID?
  /// One Apple Account and this app, over reinstalls, refunds and storefronts.
  public var appTransactionId: String?

  // MARK: What it cost

  /// The price as configured, in milliunits of `currency`.
  public var price: Int64?
  /// ISO 4217 code of the price's currency.
  public var currency: String?
  /// ISO 3166-1 alpha-3 code of the storefront's country.
  public var storefront: String?
  /// Apple's id of the storefront.
  public var storefrontId: String?

  // MARK: Offers

  /// Which kind of offer applied.
  public var offerType: OfferType?
  /// The offer code or the id of the offer.
  public var offerIdentifier: String?
  /// How the offer is paid.
  public var offerDiscountType: OfferDiscountType?
  /// The offer's length, as an ISO 8601 duration.
  public var offerPeriod: String?

  // MARK: Revocation

  /// When the App Store refunded the transaction or withdrew it from a family member.
  @Milliseconds public var revocationDate: Date? = nil
  /// Why it was refunded.
  public var revocationReason: RevocationReason?
  /// How it was revoked.
  public var revocationType: RevocationType?
  /// How much was refunded, in thousandths of a percent: 67932 is 67.932 %.
  public var revocationPercentage: Int32?

  // MARK: Plans and Advanced Commerce

  /// How the subscription is billed.
  public var billingPlanType: BillingPlanType?
  /// Where a commitment to several billing periods stands.
  public var commitmentInfo: TransactionCommitmentInfo?
  /// What Advanced Commerce adds.
  public var advancedCommerceInfo: AdvancedCommerceTransactionInfo?

  /// A transaction with what gives it its identity; everything else is set afterwards.
  public init(
    transactionId: String, originalTransactionId: String, bundleId: String, productId: String,
    purchaseDate: Date, signedDate: Date, environment: Environment
  ) {
    self.transactionId = transactionId
    self.originalTransactionId = originalTransactionId
    self.bundleId = bundleId
    self.productId = productId
    self.purchaseDate = purchaseDate
    self.signedDate = signedDate
    self.environment = environment
  }

  /// `signedDate`.
  public var signedAt: Date { signedDate }

  /// The customer's id as the app gave it; nil where it is missing or all zeros, which both mean that the
  /// app gave none.
  public var customerToken: UUID? {
    appAccountToken == .absentAppAccountToken ? nil : appAccountToken
  }
}

/// Where a commitment to several billing periods stands (`commitmentInfo` of a transaction).
public struct TransactionCommitmentInfo: Codable, Hashable, Sendable {
  /// The number of this billing period, from 1.
  public var billingPeriodNumber: Int32?
  /// When the commitment ends.
  @Milliseconds public var commitmentExpiresDate: Date? = nil
  /// The price of the whole commitment, in milliunits.
  public var commitmentPrice: Int64?
  /// How many billing periods the commitment has.
  public var totalBillingPeriods: Int32?

  /// Nothing set.
  public init() {}
}

import FoundationEssentials

/// What will happen at the end of a subscription's period (Apple's `JWSRenewalInfoDecodedPayload`).
///
/// It does not name the app: the transaction that it comes with does. `autoRenewStatus` is required although
/// it identifies nothing: no transaction has it, so a signed transaction cannot be passed off as a renewal
/// info.
public struct RenewalInfo: SignedPayload {
  // MARK: Identity

  /// The subscription.
  public var originalTransactionId: String
  /// When Apple signed this state of the renewal. Of two states the later one is the truth.
  @Milliseconds public var signedDate: Date
  /// Where the purchase took place.
  public var environment: Environment
  /// Whether the subscription renews.
  public var autoRenewStatus: AutoRenewStatus

  // MARK: Renewal

  /// The product of the current period.
  public var productId: String?
  /// The product that the subscription renews as.
  public var autoRenewProductId: String?
  /// When the next renewal is due.
  @Milliseconds public var renewalDate: Date? = nil
  /// The price of the next renewal, in milliunits of `currency`.
  public var renewalPrice: Int64?
  /// ISO 4217 code of the price's currency.
  public var currency: String?
  /// Whether the customer agreed to a price increase.
  public var priceIncreaseStatus: PriceIncreaseStatus?
  /// When the customer's latest run of subscriptions began, gaps of up to 60 days not counted.
  @Milliseconds public var recentSubscriptionStartDate: Date? = nil

  // MARK: What went wrong

  /// Why the subscription expired.
  public var expirationIntent: ExpirationIntent?
  /// Whether Apple tries to collect a failed payment.
  public var isInBillingRetryPeriod: Bool?
  /// The end of the billing grace period, until which access continues.
  @Milliseconds public var gracePeriodExpiresDate: Date? = nil

  // MARK: Offers

  /// Which kind of offer applies to the next period.
  public var offerType: OfferType?
  /// The offer code or the id of the offer.
  public var offerIdentifier: String?
  /// How the offer is paid.
  public var offerDiscountType: OfferDiscountType?
  /// The offer's length, as an ISO 8601 duration.
  public var offerPeriod: String?
  /// The win-back offers that the customer may have, best first.
  public var eligibleWinBackOfferIds: [String]?

  // MARK: Whose it is

  /// The customer's id as the app gave it. See `customerToken` for one without the all-zero value.
  public var appAccountToken: UUID?
  /// One Apple Account and this app, over reinstalls, refunds and storefronts.
  public var appTransactionId: String?

  // MARK: Plans and Advanced Commerce

  /// How the next period is billed.
  public var renewalBillingPlanType: BillingPlanType?
  /// What follows a commitment to several billing periods.
  public var commitmentInfo: RenewalCommitmentInfo?
  /// What Advanced Commerce adds.
  public var advancedCommerceInfo: AdvancedCommerceRenewalInfo?

  /// A renewal info with what gives it its identity; everything else is set afterwards.
  public init(
    originalTransactionId: String, autoRenewStatus: AutoRenewStatus, signedDate: Date,
    environment: Environment
  ) {
    self.originalTransactionId = originalTransactionId
    self.autoRenewStatus = autoRenewStatus
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

/// What follows a commitment to several billing periods (`commitmentInfo` of a renewal info).
public struct RenewalCommitmentInfo: Codable, Hashable, Sendable {
  /// The product that the commitment renews as.
  public var commitmentAutoRenewProductId: String?
  /// Whether the commitment renews.
  public var commitmentAutoRenewStatus: AutoRenewStatus?
  /// How the next commitment is billed.
  public var commitmentRenewalBillingPlanType: BillingPlanType?
  /// When the commitment renews.
  @Milliseconds public var commitmentRenewalDate: Date? = nil
  /// The price of the next commitment, in milliunits.
  public var commitmentRenewalPrice: Int64?

  /// Nothing set.
  public init() {}
}

import Foundation
import JSON

/// The renewal state of a subscription (Apple's `JWSRenewalInfoDecodedPayload`).
///
/// It names no app; the transaction that it comes with does.
public struct RenewalInfo: SignedPayload {
  // MARK: Identity

  /// The subscription.
  public var originalTransactionId: String
  /// The time of signing. The state with the latest one is current.
  @Milliseconds public var signedDate: Date
  /// The environment.
  public var environment: Environment
  /// Always nil: a payload with this field is a transaction. See `SignedDataVerifier.renewalInfo(_:)`.
  var transactionId: String?

  // MARK: Renewal

  /// Whether the subscription renews.
  public var autoRenewStatus: AutoRenewStatus?
  /// The product of the current period.
  public var productId: String?
  /// The product that the subscription renews as.
  public var autoRenewProductId: String?
  /// The due date of the next renewal.
  @Milliseconds public var renewalDate: Date? = nil
  /// The price of the next renewal, in milliunits of `currency`.
  public var renewalPrice: Int64?
  /// ISO 4217 code of the price's currency.
  public var currency: String?
  /// Whether the customer agreed to a price increase.
  public var priceIncreaseStatus: PriceIncreaseStatus?
  /// The start of the customer's latest run of subscriptions; gaps of up to 60 days do not end a run.
  @Milliseconds public var recentSubscriptionStartDate: Date? = nil

  // MARK: Billing

  /// The reason of the expiry.
  public var expirationIntent: ExpirationIntent?
  /// Whether Apple retries a failed payment.
  public var isInBillingRetryPeriod: Bool?
  /// The end of the billing grace period, until which access continues.
  @Milliseconds public var gracePeriodExpiresDate: Date? = nil

  // MARK: Offers

  /// The kind of the offer for the next period.
  public var offerType: OfferType?
  /// The offer code or the id of the offer.
  public var offerIdentifier: String?
  /// The payment mode of the offer.
  public var offerDiscountType: OfferDiscountType?
  /// The offer's length, as an ISO 8601 duration.
  public var offerPeriod: String?
  /// The win-back offers that the customer may have, best first.
  public var eligibleWinBackOfferIds: [String]?

  // MARK: Customer

  /// The app's own id of the customer. See `customerToken` for it without the all-zero value.
  public var appAccountToken: UUID?
  /// The id of one Apple Account in this app; stable over reinstalls, refunds and storefront changes.
  public var appTransactionId: String?

  // MARK: Plans

  /// The billing plan of the next period.
  public var renewalBillingPlanType: BillingPlanType?
  /// The renewal after a commitment to several billing periods.
  public var commitmentInfo: RenewalCommitmentInfo?

  /// Makes a renewal info with its required fields.
  public init(
    originalTransactionId: String, autoRenewStatus: AutoRenewStatus? = nil, signedDate: Date,
    environment: Environment
  ) {
    self.originalTransactionId = originalTransactionId
    self.autoRenewStatus = autoRenewStatus
    self.signedDate = signedDate
    self.environment = environment
  }

  /// `signedDate`.
  public var signedAt: Date { signedDate }

  /// The app's own id of the customer; nil if it is missing or all zeros, which both mean that the app set none.
  public var customerToken: UUID? {
    appAccountToken == .absentAppAccountToken ? nil : appAccountToken
  }
}

/// The renewal after a commitment to several billing periods (`commitmentInfo` of a renewal info).
public struct RenewalCommitmentInfo: Codable, Hashable, Sendable {
  /// The product that the commitment renews as.
  public var commitmentAutoRenewProductId: String?
  /// Whether the commitment renews.
  public var commitmentAutoRenewStatus: AutoRenewStatus?
  /// The billing plan of the next commitment.
  public var commitmentRenewalBillingPlanType: BillingPlanType?
  /// The renewal date of the commitment.
  @Milliseconds public var commitmentRenewalDate: Date? = nil
  /// The price of the next commitment, in milliunits.
  public var commitmentRenewalPrice: Int64?

  /// Makes an empty value.
  public init() {}
}

extension RenewalInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case originalTransactionId, signedDate, environment, transactionId, autoRenewStatus, productId,
      autoRenewProductId, renewalDate, renewalPrice, currency, priceIncreaseStatus,
      recentSubscriptionStartDate, expirationIntent, isInBillingRetryPeriod, gracePeriodExpiresDate,
      offerType, offerIdentifier, offerDiscountType, offerPeriod, eligibleWinBackOfferIds,
      appAccountToken, appTransactionId, renewalBillingPlanType, commitmentInfo
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init(
      originalTransactionId: "", signedDate: .distantPast, environment: Environment(rawValue: ""))
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .originalTransactionId: originalTransactionId = try json.read()
      case .signedDate: signedDate = try json.milliseconds()
      case .environment: environment = try json.read()
      case .transactionId: transactionId = try json.readOrNull()
      case .autoRenewStatus: autoRenewStatus = try json.readOrNull()
      case .productId: productId = try json.readOrNull()
      case .autoRenewProductId: autoRenewProductId = try json.readOrNull()
      case .renewalDate: renewalDate = try json.millisecondsOrNull()
      case .renewalPrice: renewalPrice = try json.readOrNull()
      case .currency: currency = try json.readOrNull()
      case .priceIncreaseStatus: priceIncreaseStatus = try json.readOrNull()
      case .recentSubscriptionStartDate: recentSubscriptionStartDate = try json.millisecondsOrNull()
      case .expirationIntent: expirationIntent = try json.readOrNull()
      case .isInBillingRetryPeriod: isInBillingRetryPeriod = try json.readOrNull()
      case .gracePeriodExpiresDate: gracePeriodExpiresDate = try json.millisecondsOrNull()
      case .offerType: offerType = try json.readOrNull()
      case .offerIdentifier: offerIdentifier = try json.readOrNull()
      case .offerDiscountType: offerDiscountType = try json.readOrNull()
      case .offerPeriod: offerPeriod = try json.readOrNull()
      case .eligibleWinBackOfferIds: eligibleWinBackOfferIds = try json.readOrNull()
      case .appAccountToken: appAccountToken = try json.uuidOrNull()
      case .appTransactionId: appTransactionId = try json.readOrNull()
      case .renewalBillingPlanType: renewalBillingPlanType = try json.readOrNull()
      case .commitmentInfo: commitmentInfo = try json.readOrNull()
      }
    }
    try members.require(.originalTransactionId, .signedDate, .environment)
  }
}

extension RenewalCommitmentInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case commitmentAutoRenewProductId, commitmentAutoRenewStatus, commitmentRenewalBillingPlanType,
      commitmentRenewalDate, commitmentRenewalPrice
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .commitmentAutoRenewProductId: commitmentAutoRenewProductId = try json.readOrNull()
      case .commitmentAutoRenewStatus: commitmentAutoRenewStatus = try json.readOrNull()
      case .commitmentRenewalBillingPlanType: commitmentRenewalBillingPlanType = try json.readOrNull()
      case .commitmentRenewalDate: commitmentRenewalDate = try json.millisecondsOrNull()
      case .commitmentRenewalPrice: commitmentRenewalPrice = try json.readOrNull()
      }
    }
  }
}

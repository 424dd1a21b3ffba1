import Foundation
import JSON

/// A signed transaction (Apple's `JWSTransactionDecodedPayload`).
///
/// Prices are milliunits: 4990 is 4.99.
public struct TransactionInfo: SignedPayload {
  // MARK: Identity

  /// The transaction.
  public var transactionId: String
  /// The first transaction of this purchase: the id of a subscription over all its renewals.
  public var originalTransactionId: String
  /// The app.
  public var bundleId: String
  /// The product.
  public var productId: String
  /// The time of the charge, or of the transfer of a restored or family-shared purchase.
  @Milliseconds public var purchaseDate: Date
  /// The time of signing. The state with the latest one is current.
  @Milliseconds public var signedDate: Date
  /// The environment.
  public var environment: Environment

  // MARK: Product

  /// The kind of product.
  public var type: ProductType?
  /// Whether the customer bought it or a family member shares it.
  public var inAppOwnershipType: InAppOwnershipType?
  /// The quantity.
  public var quantity: Int32?
  /// The subscription group.
  public var subscriptionGroupIdentifier: String?
  /// The id of one purchase or renewal of a subscription, across devices.
  public var webOrderLineItemId: String?
  /// Purchase or renewal.
  public var transactionReason: TransactionReason?
  /// The purchase date of the original transaction.
  @Milliseconds public var originalPurchaseDate: Date? = nil
  /// The end of the paid period of a subscription.
  @Milliseconds public var expiresDate: Date? = nil
  /// Whether the customer upgraded to another subscription, which replaces this one.
  public var isUpgraded: Bool?
  /// The original transaction before a migration.
  public var previousOriginalTransactionId: String?

  // MARK: Customer

  /// The app's own id of the customer. See `customerToken` for it without the all-zero value.
  public var appAccountToken: UUID?
  /// The id of one Apple Account in this app; stable over reinstalls, refunds and storefront changes.
  public var appTransactionId: String?

  // MARK: Price

  /// The price as configured, in milliunits of `currency`.
  public var price: Int64?
  /// ISO 4217 code of the price's currency.
  public var currency: String?
  /// ISO 3166-1 alpha-3 code of the storefront's country.
  public var storefront: String?
  /// Apple's id of the storefront.
  public var storefrontId: String?

  // MARK: Offers

  /// The kind of the offer.
  public var offerType: OfferType?
  /// The offer code or the id of the offer.
  public var offerIdentifier: String?
  /// The payment mode of the offer.
  public var offerDiscountType: OfferDiscountType?
  /// The offer's length, as an ISO 8601 duration.
  public var offerPeriod: String?

  // MARK: Revocation

  /// The time of the refund, or of the withdrawal from a family member.
  @Milliseconds public var revocationDate: Date? = nil
  /// The reason of the refund.
  public var revocationReason: RevocationReason?
  /// The kind of the revocation.
  public var revocationType: RevocationType?
  /// The refunded share, in thousandths of a percent: 67932 is 67.932 %.
  public var revocationPercentage: Int32?

  // MARK: Plans

  /// The billing plan.
  public var billingPlanType: BillingPlanType?
  /// The progress of a commitment to several billing periods.
  public var commitmentInfo: TransactionCommitmentInfo?

  /// Makes a transaction with its required fields.
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

  /// The app's own id of the customer; nil if it is missing or all zeros, which both mean that the app set none.
  public var customerToken: UUID? {
    appAccountToken == .absentAppAccountToken ? nil : appAccountToken
  }
}

/// The progress of a commitment to several billing periods (`commitmentInfo` of a transaction).
public struct TransactionCommitmentInfo: Codable, Hashable, Sendable {
  /// The number of this billing period, from 1.
  public var billingPeriodNumber: Int32?
  /// The end of the commitment.
  @Milliseconds public var commitmentExpiresDate: Date? = nil
  /// The price of the whole commitment, in milliunits.
  public var commitmentPrice: Int64?
  /// The number of billing periods of the commitment.
  public var totalBillingPeriods: Int32?

  /// Makes an empty value.
  public init() {}
}

extension TransactionInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case transactionId, originalTransactionId, bundleId, productId, purchaseDate, signedDate, environment,
      type, inAppOwnershipType, quantity, subscriptionGroupIdentifier, webOrderLineItemId,
      transactionReason, originalPurchaseDate, expiresDate, isUpgraded, previousOriginalTransactionId,
      appAccountToken, appTransactionId, price, currency, storefront, storefrontId, offerType,
      offerIdentifier, offerDiscountType, offerPeriod, revocationDate, revocationReason, revocationType,
      revocationPercentage, billingPlanType, commitmentInfo
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init(
      transactionId: "", originalTransactionId: "", bundleId: "", productId: "", purchaseDate: .distantPast,
      signedDate: .distantPast, environment: Environment(rawValue: ""))
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .transactionId: transactionId = try json.read()
      case .originalTransactionId: originalTransactionId = try json.read()
      case .bundleId: bundleId = try json.read()
      case .productId: productId = try json.read()
      case .purchaseDate: purchaseDate = try json.milliseconds()
      case .signedDate: signedDate = try json.milliseconds()
      case .environment: environment = try json.read()
      case .type: type = try json.readOrNull()
      case .inAppOwnershipType: inAppOwnershipType = try json.readOrNull()
      case .quantity: quantity = try json.readOrNull()
      case .subscriptionGroupIdentifier: subscriptionGroupIdentifier = try json.readOrNull()
      case .webOrderLineItemId: webOrderLineItemId = try json.readOrNull()
      case .transactionReason: transactionReason = try json.readOrNull()
      case .originalPurchaseDate: originalPurchaseDate = try json.millisecondsOrNull()
      case .expiresDate: expiresDate = try json.millisecondsOrNull()
      case .isUpgraded: isUpgraded = try json.readOrNull()
      case .previousOriginalTransactionId: previousOriginalTransactionId = try json.readOrNull()
      case .appAccountToken: appAccountToken = try json.uuidOrNull()
      case .appTransactionId: appTransactionId = try json.readOrNull()
      case .price: price = try json.readOrNull()
      case .currency: currency = try json.readOrNull()
      case .storefront: storefront = try json.readOrNull()
      case .storefrontId: storefrontId = try json.readOrNull()
      case .offerType: offerType = try json.readOrNull()
      case .offerIdentifier: offerIdentifier = try json.readOrNull()
      case .offerDiscountType: offerDiscountType = try json.readOrNull()
      case .offerPeriod: offerPeriod = try json.readOrNull()
      case .revocationDate: revocationDate = try json.millisecondsOrNull()
      case .revocationReason: revocationReason = try json.readOrNull()
      case .revocationType: revocationType = try json.readOrNull()
      case .revocationPercentage: revocationPercentage = try json.readOrNull()
      case .billingPlanType: billingPlanType = try json.readOrNull()
      case .commitmentInfo: commitmentInfo = try json.readOrNull()
      }
    }
    try members.require(
      .transactionId, .originalTransactionId, .bundleId, .productId, .purchaseDate, .signedDate,
      .environment)
  }
}

extension TransactionCommitmentInfo: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case billingPeriodNumber, commitmentExpiresDate, commitmentPrice, totalBillingPeriods
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object and ignores unknown members.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init()
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .billingPeriodNumber: billingPeriodNumber = try json.readOrNull()
      case .commitmentExpiresDate: commitmentExpiresDate = try json.millisecondsOrNull()
      case .commitmentPrice: commitmentPrice = try json.readOrNull()
      case .totalBillingPeriods: totalBillingPeriods = try json.readOrNull()
      }
    }
  }
}

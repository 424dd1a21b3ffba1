import Foundation
import JSON

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

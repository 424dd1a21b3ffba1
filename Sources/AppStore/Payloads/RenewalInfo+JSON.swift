import Foundation
import JSON

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

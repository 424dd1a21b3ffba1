import Foundation

/// The fields of a signed renewal info (Apple's `JWSRenewalInfoDecodedPayload`) that the rules need.
///
/// A subscription has one: a later `signedAt` replaces it.
public struct RenewalFact: Sendable, Hashable {
  /// Apple's `originalTransactionId`.
  public var originalTransactionID: String
  /// Apple's `environment`.
  public var environment: StoreEnvironment
  /// Apple's `productId`: the product of the current period.
  public var productID: String
  /// Apple's `autoRenewProductId`: the product of the next period.
  public var renewsAs: String?
  /// Apple's `autoRenewStatus`: 1 is on.
  public var willAutoRenew: Bool?
  /// Apple's `isInBillingRetryPeriod`.
  public var isInBillingRetry: Bool
  /// Apple's `gracePeriodExpiresDate`: the end of billing grace.
  public var graceExpiresDate: Date?
  /// Apple's `expirationIntent`: the reason of the end.
  public var expirationIntent: Int?
  /// Apple's `renewalDate`: the end of the current period.
  public var renewalDate: Date?
  /// Apple's `signedDate`.
  public var signedAt: Date

  /// Creates a fact; every parameter is described at its property.
  public init(
    originalTransactionID: String, environment: StoreEnvironment, productID: String,
    renewsAs: String? = nil, willAutoRenew: Bool? = nil, isInBillingRetry: Bool = false,
    graceExpiresDate: Date? = nil, expirationIntent: Int? = nil, renewalDate: Date? = nil,
    signedAt: Date
  ) {
    self.originalTransactionID = originalTransactionID
    self.environment = environment
    self.productID = productID
    self.renewsAs = renewsAs
    self.willAutoRenew = willAutoRenew
    self.isInBillingRetry = isInBillingRetry
    self.graceExpiresDate = graceExpiresDate
    self.expirationIntent = expirationIntent
    self.renewalDate = renewalDate
    self.signedAt = signedAt
  }
}

/// The detail of a notification type (`subtype`).
public struct Subtype: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The first purchase within the subscription group.
  public static let initialBuy = Self(rawValue: "INITIAL_BUY")
  /// A purchase within a subscription group in which the customer had a subscription before.
  public static let resubscribe = Self(rawValue: "RESUBSCRIBE")
  /// To a lower level of service, at the next renewal.
  public static let downgrade = Self(rawValue: "DOWNGRADE")
  /// To a higher level of service, at once.
  public static let upgrade = Self(rawValue: "UPGRADE")
  /// Automatic renewal was turned on.
  public static let autoRenewEnabled = Self(rawValue: "AUTO_RENEW_ENABLED")
  /// Automatic renewal was turned off by the customer, or by the App Store after a refund request.
  public static let autoRenewDisabled = Self(rawValue: "AUTO_RENEW_DISABLED")
  /// Expired because the customer turned renewal off.
  public static let voluntary = Self(rawValue: "VOLUNTARY")
  /// Expired because the billing retry period ended without payment.
  public static let billingRetry = Self(rawValue: "BILLING_RETRY")
  /// Expired because the customer did not agree to a price increase.
  public static let priceIncrease = Self(rawValue: "PRICE_INCREASE")
  /// The renewal failed and the billing grace period runs: access continues.
  public static let gracePeriod = Self(rawValue: "GRACE_PERIOD")
  /// The customer has not responded to a price increase.
  public static let pending = Self(rawValue: "PENDING")
  /// The customer agreed to a price increase, or was informed of one that needs no consent.
  public static let accepted = Self(rawValue: "ACCEPTED")
  /// A subscription that had failed to renew was paid.
  public static let billingRecovery = Self(rawValue: "BILLING_RECOVERY")
  /// Expired because the product was no longer for sale.
  public static let productNotForSale = Self(rawValue: "PRODUCT_NOT_FOR_SALE")
  /// A mass extension is complete; the payload has `summary`.
  public static let summary = Self(rawValue: "SUMMARY")
  /// The extension failed for one subscription.
  public static let failure = Self(rawValue: "FAILURE")
  /// An external purchase token was not reported in time.
  public static let unreported = Self(rawValue: "UNREPORTED")
  /// An external purchase token was created.
  public static let created = Self(rawValue: "CREATED")
  /// A monthly reminder while an external purchase token is active.
  public static let activeTokenReminder = Self(rawValue: "ACTIVE_TOKEN_REMINDER")
}

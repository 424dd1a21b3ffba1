/// The state of a subscription at the App Store (`status`). Access: `active` and `billingGracePeriod`.
public struct SubscriptionStatus: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The paid period runs.
  public static let active = Self(rawValue: 1)
  /// The paid period is over.
  public static let expired = Self(rawValue: 2)
  /// Apple retries the payment, for up to 60 days.
  public static let billingRetry = Self(rawValue: 3)
  /// Apple retries the payment, and access continues.
  public static let billingGracePeriod = Self(rawValue: 4)
  /// Refunded, or withdrawn from a family member.
  public static let revoked = Self(rawValue: 5)
}

/// Whether a subscription renews at the end of its period (`autoRenewStatus`).
public struct AutoRenewStatus: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The customer turned renewal off.
  public static let off = Self(rawValue: 0)
  /// The subscription renews.
  public static let on = Self(rawValue: 1)
}

/// The reason of an expiry (`expirationIntent`).
public struct ExpirationIntent: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The customer cancelled.
  public static let customerCancelled = Self(rawValue: 1)
  /// Payment failed.
  public static let billingError = Self(rawValue: 2)
  /// The customer did not agree to a price increase.
  public static let customerDidNotConsentToPriceIncrease = Self(rawValue: 3)
  /// The product was not for sale at renewal.
  public static let productNotAvailable = Self(rawValue: 4)
  /// Another reason.
  public static let other = Self(rawValue: 5)
}

/// The customer's response to a price increase (`priceIncreaseStatus`).
public struct PriceIncreaseStatus: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// No response yet.
  public static let customerHasNotResponded = Self(rawValue: 0)
  /// The customer agreed, or was informed of an increase that needs no consent.
  public static let customerConsentedOrWasNotifiedWithoutNeedingConsent = Self(rawValue: 1)
}

/// The billing plan (`billingPlanType`, and `renewalBillingPlanType` for the next period).
public struct BillingPlanType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Month by month, with a commitment to a longer time.
  public static let monthly = Self(rawValue: "MONTHLY")
}

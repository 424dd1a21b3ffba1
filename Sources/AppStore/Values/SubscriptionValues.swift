/// The state of a subscription at the App Store (`status`). Access: `active` and `billingGracePeriod`.
public struct SubscriptionStatus: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// Paid time runs.
  public static let active = Self(rawValue: 1)
  /// Paid time is over.
  public static let expired = Self(rawValue: 2)
  /// Apple tries to collect the payment, for up to 60 days.
  public static let billingRetry = Self(rawValue: 3)
  /// Apple tries to collect the payment and asks to give access meanwhile.
  public static let billingGracePeriod = Self(rawValue: 4)
  /// Refunded, or withdrawn from a family member.
  public static let revoked = Self(rawValue: 5)
}

/// Whether a subscription renews at the end of its period (`autoRenewStatus`).
public struct AutoRenewStatus: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The customer turned renewal off.
  public static let off = Self(rawValue: 0)
  /// The subscription renews.
  public static let on = Self(rawValue: 1)
}

/// Why a subscription expired (`expirationIntent`).
public struct ExpirationIntent: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
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

/// How the customer took a price increase (`priceIncreaseStatus`).
public struct PriceIncreaseStatus: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// No answer yet.
  public static let customerHasNotResponded = Self(rawValue: 0)
  /// Agreed, or told of an increase that needs no consent.
  public static let customerConsentedOrWasNotifiedWithoutNeedingConsent = Self(rawValue: 1)
}

/// How a subscription is billed (`billingPlanType`, and `renewalBillingPlanType` for the next period).
public struct BillingPlanType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The whole period at its beginning.
  public static let billedUpfront = Self(rawValue: "BILLED_UPFRONT")
  /// Month by month, with a commitment to a longer time.
  public static let monthly = Self(rawValue: "MONTHLY")
}

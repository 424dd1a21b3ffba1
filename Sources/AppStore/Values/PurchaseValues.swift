/// The kind of a product (`type`).
public struct ProductType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Renews until it is cancelled.
  public static let autoRenewableSubscription = Self(rawValue: "Auto-Renewable Subscription")
  /// Bought once and kept.
  public static let nonConsumable = Self(rawValue: "Non-Consumable")
  /// Used up and bought again.
  public static let consumable = Self(rawValue: "Consumable")
  /// Lasts for a time that only the app knows.
  public static let nonRenewingSubscription = Self(rawValue: "Non-Renewing Subscription")
}

/// Whether the customer bought a product or a family member shares it (`inAppOwnershipType`).
public struct InAppOwnershipType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Shared by a family member.
  public static let familyShared = Self(rawValue: "FAMILY_SHARED")
  /// Bought by this Apple Account.
  public static let purchased = Self(rawValue: "PURCHASED")
}

/// Whether the customer bought or the App Store renewed (`transactionReason`).
public struct TransactionReason: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The customer's purchase.
  public static let purchase = Self(rawValue: "PURCHASE")
  /// The App Store's renewal.
  public static let renewal = Self(rawValue: "RENEWAL")
}

/// The kind of an offer (`offerType`).
public struct OfferType: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// For new customers.
  public static let introductoryOffer = Self(rawValue: 1)
  /// For customers that the app chooses.
  public static let promotionalOffer = Self(rawValue: 2)
  /// Redeemed with a code.
  public static let offerCode = Self(rawValue: 3)
  /// For former subscribers.
  public static let winBackOffer = Self(rawValue: 4)
}

/// The payment mode of an offer (`offerDiscountType`).
public struct OfferDiscountType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Free.
  public static let freeTrial = Self(rawValue: "FREE_TRIAL")
  /// One lower price for the whole offer.
  public static let payUpFront = Self(rawValue: "PAY_UP_FRONT")
}

/// The platform of the first purchase or download of the app (`originalPlatform`).
public struct PurchasePlatform: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// iPhone and iPad.
  public static let iOS = Self(rawValue: "iOS")
  /// Apple Vision.
  public static let visionOS = Self(rawValue: "visionOS")
}

/// The reason of a refund (`revocationReason`).
public struct RevocationReason: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// For another reason, such as an accidental purchase.
  public static let refundedForOtherReason = Self(rawValue: 0)
  /// For an actual or perceived issue in the app.
  public static let refundedDueToIssue = Self(rawValue: 1)
}

/// The kind of a revocation (`revocationType`).
public struct RevocationType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The whole price was refunded.
  public static let refundFull = Self(rawValue: "REFUND_FULL")
  /// A part was refunded; `revocationPercentage` has the share in thousandths of a percent.
  public static let refundProrated = Self(rawValue: "REFUND_PRORATED")
  /// Family Sharing ended.
  public static let familyRevoke = Self(rawValue: "FAMILY_REVOKE")
}

/// The reason of a refund request (`consumptionRequestReason`).
public struct ConsumptionRequestReason: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The customer did not intend to buy.
  public static let unintendedPurchase = Self(rawValue: "UNINTENDED_PURCHASE")
  /// The customer is not satisfied.
  public static let unsatisfiedWithPurchase = Self(rawValue: "UNSATISFIED_WITH_PURCHASE")
  /// A legal reason.
  public static let legal = Self(rawValue: "LEGAL")
}

/// What kind of product was bought (`type`).
public struct ProductType: OpenValue {
  /// The words on the wire.
  public let rawValue: String

  /// Takes any words, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Renews by itself until it is cancelled.
  public static let autoRenewableSubscription = Self(rawValue: "Auto-Renewable Subscription")
  /// Bought once, kept for good.
  public static let nonConsumable = Self(rawValue: "Non-Consumable")
  /// Bought, used up, bought again.
  public static let consumable = Self(rawValue: "Consumable")
  /// Runs for a time that only the app knows.
  public static let nonRenewingSubscription = Self(rawValue: "Non-Renewing Subscription")
}

/// Whether the customer bought it or has it from the family (`inAppOwnershipType`).
public struct InAppOwnershipType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// From a family member who shares it.
  public static let familyShared = Self(rawValue: "FAMILY_SHARED")
  /// Bought by this Apple Account.
  public static let purchased = Self(rawValue: "PURCHASED")
}

/// Whether the customer bought it or the App Store renewed it (`transactionReason`).
public struct TransactionReason: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The customer's purchase.
  public static let purchase = Self(rawValue: "PURCHASE")
  /// The App Store's renewal.
  public static let renewal = Self(rawValue: "RENEWAL")
}

/// Which kind of offer applied (`offerType`).
public struct OfferType: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// For new customers.
  public static let introductoryOffer = Self(rawValue: 1)
  /// For customers that the app chooses.
  public static let promotionalOffer = Self(rawValue: 2)
  /// By a code.
  public static let offerCode = Self(rawValue: 3)
  /// For customers who left.
  public static let winBackOffer = Self(rawValue: 4)
}

/// How an offer is paid (`offerDiscountType`).
public struct OfferDiscountType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Nothing is paid.
  public static let freeTrial = Self(rawValue: "FREE_TRIAL")
  /// A lower price for each of several periods.
  public static let payAsYouGo = Self(rawValue: "PAY_AS_YOU_GO")
  /// One lower price for the whole offer.
  public static let payUpFront = Self(rawValue: "PAY_UP_FRONT")
  /// One price, once.
  public static let oneTime = Self(rawValue: "ONE_TIME")
}

/// Where the app was first bought or downloaded (`originalPlatform`).
public struct PurchasePlatform: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// iPhone and iPad.
  public static let iOS = Self(rawValue: "iOS")
  /// Mac.
  public static let macOS = Self(rawValue: "macOS")
  /// Apple TV.
  public static let tvOS = Self(rawValue: "tvOS")
  /// Apple Vision.
  public static let visionOS = Self(rawValue: "visionOS")
}

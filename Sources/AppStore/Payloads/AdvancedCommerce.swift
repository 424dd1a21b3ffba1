import FoundationEssentials

/// What Advanced Commerce adds to a transaction (`advancedCommerceInfo`). Amounts are milliunits.
public struct AdvancedCommerceTransactionInfo: Codable, Hashable, Sendable {
  /// Name and description of the subscription.
  public var descriptors: AdvancedCommerceDescriptors?
  /// The tax that Apple estimated.
  public var estimatedTax: Int64?
  /// What was bought.
  public var items: [AdvancedCommerceTransactionItem]?
  /// The length of the subscription's period.
  public var period: AdvancedCommercePeriod?
  /// The id that the developer's request bore.
  public var requestReferenceId: String?
  /// The tax category.
  public var taxCode: String?
  /// The price without tax.
  public var taxExclusivePrice: Int64?
  /// The tax rate as a decimal.
  public var taxRate: String?

  /// Nothing set.
  public init() {}
}

/// One thing bought with Advanced Commerce (`items` of a transaction).
public struct AdvancedCommerceTransactionItem: Codable, Hashable, Sendable {
  /// The developer's id of it.
  public var sku: String?
  /// The description that the customer reads.
  public var description: String?
  /// The name that the customer reads.
  public var displayName: String?
  /// The offer that applied.
  public var offer: AdvancedCommerceOffer?
  /// The price in milliunits.
  public var price: Int64?
  /// The refunds of this item.
  public var refunds: [AdvancedCommerceRefund]?
  /// When it was revoked.
  @Milliseconds public var revocationDate: Date? = nil

  /// Nothing set.
  public init() {}
}

/// What Advanced Commerce adds to a renewal info (`advancedCommerceInfo`).
public struct AdvancedCommerceRenewalInfo: Codable, Hashable, Sendable {
  /// The token that the next change of the subscription must bear.
  public var consistencyToken: String?
  /// Name and description of the subscription.
  public var descriptors: AdvancedCommerceDescriptors?
  /// What renews.
  public var items: [AdvancedCommerceRenewalItem]?
  /// The length of the subscription's period.
  public var period: AdvancedCommercePeriod?
  /// The id that the developer's request bore.
  public var requestReferenceId: String?
  /// The tax category.
  public var taxCode: String?

  /// Nothing set.
  public init() {}
}

/// One thing that renews with Advanced Commerce (`items` of a renewal info).
public struct AdvancedCommerceRenewalItem: Codable, Hashable, Sendable {
  /// The developer's id of it.
  public var sku: String?
  /// The description that the customer reads.
  public var description: String?
  /// The name that the customer reads.
  public var displayName: String?
  /// The offer that applies.
  public var offer: AdvancedCommerceOffer?
  /// The price in milliunits.
  public var price: Int64?
  /// Where the consent to a price increase stands.
  public var priceIncreaseInfo: AdvancedCommercePriceIncreaseInfo?

  /// Nothing set.
  public init() {}
}

/// Name and description of an Advanced Commerce subscription (`descriptors`).
public struct AdvancedCommerceDescriptors: Codable, Hashable, Sendable {
  /// The description that the customer reads.
  public var description: String?
  /// The name that the customer reads.
  public var displayName: String?

  /// Nothing set.
  public init() {}
}

/// An offer of Advanced Commerce (`offer`).
public struct AdvancedCommerceOffer: Codable, Hashable, Sendable {
  /// The length of one period of the offer.
  public var period: AdvancedCommerceOfferPeriod?
  /// How many periods it lasts.
  public var periodCount: Int32?
  /// The price in milliunits.
  public var price: Int64?
  /// Why it was made.
  public var reason: AdvancedCommerceOfferReason?

  /// Nothing set.
  public init() {}
}

/// A refund of an Advanced Commerce item (`refunds`).
public struct AdvancedCommerceRefund: Codable, Hashable, Sendable {
  /// How much, in milliunits.
  public var refundAmount: Int64?
  /// When.
  @Milliseconds public var refundDate: Date? = nil
  /// Why.
  public var refundReason: AdvancedCommerceRefundReason?
  /// How it was computed.
  public var refundType: AdvancedCommerceRefundType?

  /// Nothing set.
  public init() {}
}

/// Where the consent to a price increase stands (`priceIncreaseInfo`).
public struct AdvancedCommercePriceIncreaseInfo: Codable, Hashable, Sendable {
  /// The SKUs that the consent is also needed for.
  public var dependentSKUs: [String]?
  /// The new price in milliunits.
  public var price: Int64?
  /// Where it stands.
  public var status: AdvancedCommercePriceIncreaseInfoStatus?

  /// Nothing set.
  public init() {}
}

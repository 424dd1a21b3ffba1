/// The length of an Advanced Commerce subscription's period (`period`), as an ISO 8601 duration.
public struct AdvancedCommercePeriod: OpenValue {
  /// The duration on the wire.
  public let rawValue: String

  /// Takes any duration, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// A week.
  public static let oneWeek = Self(rawValue: "P1W")
  /// A month.
  public static let oneMonth = Self(rawValue: "P1M")
  /// Two months.
  public static let twoMonths = Self(rawValue: "P2M")
  /// Three months.
  public static let threeMonths = Self(rawValue: "P3M")
  /// Six months.
  public static let sixMonths = Self(rawValue: "P6M")
  /// A year.
  public static let oneYear = Self(rawValue: "P1Y")
}

/// The length of an Advanced Commerce offer (`offer.period`), as an ISO 8601 duration.
public struct AdvancedCommerceOfferPeriod: OpenValue {
  /// The duration on the wire.
  public let rawValue: String

  /// Takes any duration, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Three days.
  public static let threeDays = Self(rawValue: "P3D")
  /// A week.
  public static let oneWeek = Self(rawValue: "P1W")
  /// Two weeks.
  public static let twoWeeks = Self(rawValue: "P2W")
  /// A month.
  public static let oneMonth = Self(rawValue: "P1M")
  /// Two months.
  public static let twoMonths = Self(rawValue: "P2M")
  /// Three months.
  public static let threeMonths = Self(rawValue: "P3M")
  /// Six months.
  public static let sixMonths = Self(rawValue: "P6M")
  /// Nine months.
  public static let nineMonths = Self(rawValue: "P9M")
  /// A year.
  public static let oneYear = Self(rawValue: "P1Y")
}

/// Why an Advanced Commerce offer was made (`offer.reason`).
public struct AdvancedCommerceOfferReason: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// To win a customer.
  public static let acquisition = Self(rawValue: "ACQUISITION")
  /// To win a customer back.
  public static let winBack = Self(rawValue: "WIN_BACK")
  /// To keep a customer.
  public static let retention = Self(rawValue: "RETENTION")
}

/// Why an Advanced Commerce item was refunded (`refundReason`).
public struct AdvancedCommerceRefundReason: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Did not mean to buy.
  public static let unintendedPurchase = Self(rawValue: "UNINTENDED_PURCHASE")
  /// Did not receive, or could not use, what was bought.
  public static let fulfillmentIssue = Self(rawValue: "FULFILLMENT_ISSUE")
  /// Is not satisfied.
  public static let unsatisfiedWithPurchase = Self(rawValue: "UNSATISFIED_WITH_PURCHASE")
  /// A legal reason.
  public static let legal = Self(rawValue: "LEGAL")
  /// Another reason.
  public static let other = Self(rawValue: "OTHER")
  /// The items of the subscription changed.
  public static let modifyItemsRefund = Self(rawValue: "MODIFY_ITEMS_REFUND")
  /// A test of a declined refund.
  public static let simulateRefundDecline = Self(rawValue: "SIMULATE_REFUND_DECLINE")
}

/// How an Advanced Commerce refund was computed (`refundType`).
public struct AdvancedCommerceRefundType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// All of the price.
  public static let full = Self(rawValue: "FULL")
  /// In proportion to the time left.
  public static let prorated = Self(rawValue: "PRORATED")
  /// An amount that the developer chose.
  public static let custom = Self(rawValue: "CUSTOM")
}

/// Where the consent to an Advanced Commerce price increase stands (`priceIncreaseInfo.status`).
public struct AdvancedCommercePriceIncreaseInfoStatus: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The customer will be asked.
  public static let scheduled = Self(rawValue: "SCHEDULED")
  /// The customer was asked.
  public static let pending = Self(rawValue: "PENDING")
  /// The customer agreed.
  public static let accepted = Self(rawValue: "ACCEPTED")
}

/// Why a transaction was refunded (`revocationReason`).
public struct RevocationReason: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// For a reason that is not the app's, such as a purchase by accident.
  public static let refundedForOtherReason = Self(rawValue: 0)
  /// For an issue, real or perceived, within the app.
  public static let refundedDueToIssue = Self(rawValue: 1)
}

/// How a transaction was revoked (`revocationType`).
public struct RevocationType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// All of the price was refunded.
  public static let refundFull = Self(rawValue: "REFUND_FULL")
  /// A part was refunded; `revocationPercentage` tells how much, in thousandths of a percent.
  public static let refundProrated = Self(rawValue: "REFUND_PRORATED")
  /// Family Sharing ended.
  public static let familyRevoke = Self(rawValue: "FAMILY_REVOKE")
}

/// Why the customer asks for a refund (`consumptionRequestReason`).
public struct ConsumptionRequestReason: OpenValue {
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
}

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
  /// The customer did not receive or could not use the product.
  public static let fulfillmentIssue = Self(rawValue: "FULFILLMENT_ISSUE")
  /// The customer is not satisfied.
  public static let unsatisfiedWithPurchase = Self(rawValue: "UNSATISFIED_WITH_PURCHASE")
  /// A legal reason.
  public static let legal = Self(rawValue: "LEGAL")
  /// Another reason.
  public static let other = Self(rawValue: "OTHER")
}

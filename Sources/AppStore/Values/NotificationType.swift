/// The type of an App Store Server Notification (`notificationType`).
public struct NotificationType: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// A subscription was bought for the first time or again.
  public static let subscribed = Self(rawValue: "SUBSCRIBED")
  /// The customer changed the plan: an upgrade takes effect at once, a downgrade at the next renewal.
  public static let didChangeRenewalPref = Self(rawValue: "DID_CHANGE_RENEWAL_PREF")
  /// Automatic renewal was turned on or off.
  public static let didChangeRenewalStatus = Self(rawValue: "DID_CHANGE_RENEWAL_STATUS")
  /// The customer redeemed an offer.
  public static let offerRedeemed = Self(rawValue: "OFFER_REDEEMED")
  /// The subscription renewed.
  public static let didRenew = Self(rawValue: "DID_RENEW")
  /// The subscription expired.
  public static let expired = Self(rawValue: "EXPIRED")
  /// A renewal payment failed; the subtype says whether the billing grace period runs.
  public static let didFailToRenew = Self(rawValue: "DID_FAIL_TO_RENEW")
  /// The billing grace period ended without payment; Apple keeps retrying.
  public static let gracePeriodExpired = Self(rawValue: "GRACE_PERIOD_EXPIRED")
  /// The customer was informed of a price increase, or agreed to it.
  public static let priceIncrease = Self(rawValue: "PRICE_INCREASE")
  /// Apple refunded the one transaction that the notification carries.
  public static let refund = Self(rawValue: "REFUND")
  /// Apple declined a refund.
  public static let refundDeclined = Self(rawValue: "REFUND_DECLINED")
  /// Apple requests the consumption of a purchase whose refund the customer requests.
  public static let consumptionRequest = Self(rawValue: "CONSUMPTION_REQUEST")
  /// The renewal date of one subscription was extended.
  public static let renewalExtended = Self(rawValue: "RENEWAL_EXTENDED")
  /// Family Sharing ended, or the purchaser was refunded.
  public static let revoke = Self(rawValue: "REVOKE")
  /// The test notification that a developer requests.
  public static let test = Self(rawValue: "TEST")
  /// A mass extension ended, or failed for one subscription.
  public static let renewalExtension = Self(rawValue: "RENEWAL_EXTENSION")
  /// A refund was reversed.
  public static let refundReversed = Self(rawValue: "REFUND_REVERSED")
  /// A token for an external purchase was created or not reported.
  public static let externalPurchaseToken = Self(rawValue: "EXTERNAL_PURCHASE_TOKEN")
  /// A consumable, non-consumable or non-renewing subscription was bought.
  public static let oneTimeCharge = Self(rawValue: "ONE_TIME_CHARGE")
  /// A parent withdrew consent for a child's account; the payload carries `appData`.
  public static let rescindConsent = Self(rawValue: "RESCIND_CONSENT")
  /// Advanced Commerce: a subscription's metadata changed.
  public static let metadataUpdate = Self(rawValue: "METADATA_UPDATE")
  /// Advanced Commerce: a subscription was migrated.
  public static let migration = Self(rawValue: "MIGRATION")
  /// Advanced Commerce: a subscription's price changed.
  public static let priceChange = Self(rawValue: "PRICE_CHANGE")
}

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

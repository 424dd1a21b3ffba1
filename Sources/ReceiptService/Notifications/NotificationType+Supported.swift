import AppStore

extension NotificationType {
  /// The types that this version handles. Notifications of other types are stored as pending, for a replay by a later
  /// version.
  static let supported: Set<NotificationType> = [
    .subscribed, .didChangeRenewalPref, .didChangeRenewalStatus, .offerRedeemed, .didRenew, .expired,
    .didFailToRenew, .gracePeriodExpired, .priceIncrease, .refund, .refundDeclined, .consumptionRequest,
    .renewalExtended, .revoke, .test, .renewalExtension, .refundReversed, .externalPurchaseToken,
    .oneTimeCharge, .rescindConsent, .metadataUpdate, .migration, .priceChange,
  ]
}

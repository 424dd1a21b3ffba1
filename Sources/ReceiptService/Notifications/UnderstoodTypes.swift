import AppStore

extension NotificationType {
  /// The types that this version was written for. Another one is kept and flagged, so that it can be
  /// replayed once somebody has looked at what it means.
  static let understood: Set<NotificationType> = [
    .subscribed, .didChangeRenewalPref, .didChangeRenewalStatus, .offerRedeemed, .didRenew, .expired,
    .didFailToRenew, .gracePeriodExpired, .priceIncrease, .refund, .refundDeclined, .consumptionRequest,
    .renewalExtended, .revoke, .test, .renewalExtension, .refundReversed, .externalPurchaseToken,
    .oneTimeCharge, .rescindConsent, .metadataUpdate, .migration, .priceChange,
  ]
}

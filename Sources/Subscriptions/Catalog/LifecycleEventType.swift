/// The types of lifecycle events, as sent.
package enum LifecycleEventType: String, Sendable, CaseIterable {
  /// A device started the app's own trial.
  case trialStarted = "trial.started"
  /// The trial ends in some days.
  case trialEnding = "trial.ending"
  case trialEnded = "trial.ended"
  /// A subscription or another product was bought for the first time, or again after its end.
  case subscriptionStarted = "subscription.started"
  /// The App Store charged another period.
  case renewed
  /// The automatic renewal was turned off.
  case cancelled
  /// A charge failed.
  case billingIssue = "billing_issue"
  /// The paid time is over and access continues for a limited time.
  case graceStarted = "grace.started"
  /// Another day of a grace period has passed.
  case graceReminder = "grace.reminder"
  /// The grace period ends in some days.
  case graceEnding = "grace.ending"
  /// A period was charged after a charge had failed.
  case recovered
  /// The access of a purchase ended.
  case expired
  /// A transaction was refunded.
  case refunded
  /// A refund was taken back.
  case refundReversed = "refund_reversed"
  /// Another product of the group took effect.
  case productChanged = "product_changed"
  /// The App Store announced a higher price, or the customer agreed to it.
  case priceIncrease = "price_increase"
  /// Paired devices are beyond the limit of the customer's tier now.
  case pausedDevices = "paused_devices"
  /// A child's device joined, or its parent's device named it.
  case childPaired = "child.paired"
  /// The parent's device ended the pairing.
  case childUnpaired = "child.unpaired"
  /// A purchase moved to another customer.
  case transferred
}

import Foundation

/// A customer of one app, in a report.
struct ReportedCustomer: Sendable {
  /// `user` or `device`.
  var kind: String
  var customer: String
  var bundleID: String
  var app: String
  /// The entitlements that the customer's client gets now.
  var entitlements: EntitlementsResponse
  /// When access ends if nothing new arrives, as in `support_customers.access_until`; `null` for no access or no end.
  var accessUntil: Date?
  /// The reason for the entitlements, in a sentence.
  var because: String
  /// When a valid access token of the user came; `nil` for a device, or if none came in 395 days.
  var seen: SeenTimes?
  var purchases: [ReportedPurchase]
  /// Purchases that run beside another one that opens as much.
  var doublePurchases: [DoublePurchase]
  var grants: [ReportedGrant]
  var trial: ReportedTrial?
  /// Since when free access is on; `null` if it is off.
  var freeAccessSince: Date?
  /// The children's devices, in the order of pairing.
  var children: [ReportedChild]
  /// The last refused requests that named the customer, oldest first.
  var refusedAttempts: [RefusedAttempt]
  /// The last events but refused requests, oldest first.
  var events: [TimelineEvent]
  /// How many earlier events there are.
  var eventsHidden: Int
}

import Foundation
import Subscriptions

/// The entitlements and the subscription of a customer of one app at one instant, for delivery.
struct CustomerState: Sendable {
  var app: App
  var customer: Customer
  var entitlements: Entitlements
  /// The purchase that gives the access; the latest one if none does.
  var subscription: Subscription?
  /// The time of the state.
  var instant: Date
  /// Whether the customer was erased: the destination is told that, and no state.
  var isErased: Bool

  init(
    of customer: Customer, in app: App, customerRecords: CustomerRecords, isErased: Bool = false,
    at instant: Date
  ) {
    self.isErased = isErased
    self.app = app
    self.customer = customer
    self.instant = instant
    entitlements = app.entitlements(of: customerRecords, for: customer, at: instant)
    if case .subscription(let subscription) = entitlements.source {
      self.subscription = subscription
    } else {
      subscription = customerRecords.subscriptions.max { $0.current.purchaseDate < $1.current.purchaseDate }
    }
  }
}

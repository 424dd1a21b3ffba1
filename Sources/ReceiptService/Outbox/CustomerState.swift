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

  init(of customer: Customer, in app: App, customerRecords: CustomerRecords, at instant: Date) {
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

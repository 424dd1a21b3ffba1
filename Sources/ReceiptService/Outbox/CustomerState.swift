import FoundationEssentials
import Subscriptions

/// What a customer of one app may do at one instant, as it is told to others.
struct CustomerState: Sendable {
  var app: App
  var customer: Customer
  var entitlements: Entitlements
  /// The purchase that decides; the latest one where none does.
  var subscription: Subscription?
  /// The instant.
  var instant: Date

  init(of customer: Customer, in app: App, holdings: Holdings, at instant: Date) {
    self.app = app
    self.customer = customer
    self.instant = instant
    entitlements = app.entitlements(of: holdings, for: customer, at: instant)
    if case .subscription(let subscription) = entitlements.source {
      self.subscription = subscription
    } else {
      subscription = holdings.subscriptions.max { $0.current.purchaseDate < $1.current.purchaseDate }
    }
  }
}

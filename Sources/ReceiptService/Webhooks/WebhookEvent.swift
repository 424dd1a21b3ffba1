import FoundationEssentials
import Subscriptions

/// The event `customer.updated`, as Standard Webhooks 1.0 lays it out.
struct WebhookEvent: Encodable {
  var type = "customer.updated"
  /// When the change came: the same on every retry.
  var timestamp: Date
  var data: Content

  /// What a receiver learns. Nothing in it is a proof or a token, and nothing changes unless the state does.
  struct Content: Encodable {
    var bundleID: String
    var customer: CustomerAnswer
    var entitlements: Entitled
    @Nullable var subscription: SubscriptionAnswer?
  }

  struct CustomerAnswer: Encodable {
    var kind: String
    var id: String
  }

  /// The entitlements without what a client needs and a server does not (how long to go on offline).
  struct Entitled: Encodable {
    @Nullable var tier: String?
    var status: String
    var isAccessGranted: Bool
    var features: Features
    @Nullable var validUntil: Date?
  }
}

extension WebhookEvent.Content {
  init(_ state: CustomerState) {
    let entitlements = state.entitlements
    self.init(
      bundleID: state.app.bundleID,
      customer: WebhookEvent.CustomerAnswer(kind: state.customer.kind.rawValue, id: state.customer.id),
      entitlements: WebhookEvent.Entitled(
        tier: entitlements.tier, status: entitlements.status.rawValue,
        isAccessGranted: entitlements.isAccessGranted, features: entitlements.features,
        validUntil: entitlements.validUntil),
      subscription: state.subscription.map { SubscriptionAnswer($0, at: state.instant) })
  }
}

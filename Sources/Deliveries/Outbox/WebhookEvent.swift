import Customers
import Foundation
import HTTP
import JSON
import Subscriptions

/// The events `customer.updated` and `customer.erased`, as Standard Webhooks 1.0 lays them out. Every webhook gets
/// `customer.erased`.
struct WebhookEvent {
  /// The time of the change, the same on every retry.
  var timestamp: Date
  var data: Content

  /// The content of an event. It has no proof or token, and changes only with the state.
  struct Content {
    var bundleID: String
    var customer: CustomerAnswer
    /// `nil` for an erased customer.
    var entitlements: Entitled?
    var subscription: SubscriptionResponse?
  }

  struct CustomerAnswer {
    var kind: String
    var id: String
  }

  /// The entitlements without `offlineGraceUntil`, which only clients need.
  struct Entitled {
    var tier: String?
    var status: String
    var isAccessGranted: Bool
    var features: Features
    var validUntil: Date?
  }
}

extension WebhookEvent.Content {
  init(_ state: CustomerState) {
    let entitlements = state.entitlements
    let customer = WebhookEvent.CustomerAnswer(kind: state.customer.kind.rawValue, id: state.customer.id)
    if state.isErased {
      self.init(bundleID: state.app.bundleID, customer: customer)
      return
    }
    self.init(
      bundleID: state.app.bundleID,
      customer: customer,
      entitlements: WebhookEvent.Entitled(
        tier: entitlements.tier, status: entitlements.status.rawValue,
        isAccessGranted: entitlements.isAccessGranted, features: entitlements.features,
        validUntil: entitlements.validUntil),
      subscription: state.subscription.map { SubscriptionResponse($0, at: state.instant) })
  }
}

extension WebhookEvent: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("data", data)
      json.member("timestamp", timestamp)
      json.member("type", data.entitlements == nil ? "customer.erased" : WebhookEndpoint.stateEvent)
    }
  }
}

extension WebhookEvent.Content: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("customer", customer)
      guard let entitlements else { return }
      json.member("entitlements", entitlements)
      json.member("subscription", subscription)
    }
  }
}

extension WebhookEvent.CustomerAnswer: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("id", id)
      json.member("kind", kind)
    }
  }
}

extension WebhookEvent.Entitled: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("features", features)
      json.member("isAccessGranted", isAccessGranted)
      json.member("status", status)
      json.member("tier", tier)
      json.member("validUntil", validUntil)
    }
  }
}

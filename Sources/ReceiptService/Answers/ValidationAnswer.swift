import FoundationEssentials

/// The contract's answer of `POST /api/v1/subscriptions/validate`.
struct ValidationAnswer: Encodable, Sendable {
  let success = true
  var subscription: SubscriptionAnswer
  var entitlements: EntitlementsAnswer
  var serverTime: Date
}

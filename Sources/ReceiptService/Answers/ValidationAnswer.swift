import FoundationEssentials
import HTTP
import JSON

/// The contract's answer of `POST /api/v1/subscriptions/validate`.
struct ValidationAnswer: Sendable {
  var subscription: SubscriptionAnswer
  var entitlements: EntitlementsAnswer
  var serverTime: Date
}

extension ValidationAnswer: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlements", entitlements)
      json.member("serverTime", serverTime)
      json.member("subscription", subscription)
      json.member("success", true)
    }
  }
}

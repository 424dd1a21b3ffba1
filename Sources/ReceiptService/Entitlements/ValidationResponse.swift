import Foundation
import HTTP
import JSON

/// The response of `POST /api/v1/subscriptions/validate`.
struct ValidationResponse: Sendable {
  var subscription: SubscriptionResponse
  var entitlements: EntitlementsResponse
  var serverTime: Date
}

extension ValidationResponse: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlements", entitlements)
      json.member("serverTime", serverTime)
      json.member("subscription", subscription)
      json.member("success", true)
    }
  }
}

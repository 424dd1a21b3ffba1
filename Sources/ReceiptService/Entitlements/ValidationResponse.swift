import Foundation
import HTTP
import JSON

/// The response of `POST /api/v1/subscriptions/validate`.
struct ValidationResponse: Sendable {
  /// `device_limit_reached` for a device that proved the purchase and gets no place in it now; otherwise `nil`, and not written.
  var code: String?
  var subscription: SubscriptionResponse
  var entitlements: EntitlementsResponse
  var serverTime: Date
}

extension ValidationResponse: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("code", ifPresent: code)
      json.member("entitlements", entitlements)
      json.member("serverTime", serverTime)
      json.member("subscription", subscription)
      json.member("success", true)
    }
  }
}

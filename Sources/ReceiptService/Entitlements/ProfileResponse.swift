import Foundation
import HTTP
import JSON
import Subscriptions

/// The response of `…/profiles/{userID}/premium`: a user's premium status.
struct ProfileResponse: Sendable {
  var isPremium: Bool
  var premiumExpiresAt: Date?
  var premiumProductID: String?
  var premiumOriginalTransactionID: String?
  var isInGracePeriod: Bool
  var willRenew: Bool
  var entitlements: EntitlementsResponse
  var serverTime: Date

  /// - Parameter answer: the same entitlements, for the member `entitlements`.
  init(_ entitlements: Entitlements, answer: EntitlementsResponse, at instant: Date) {
    let status = PremiumStatus(entitlements, at: instant)
    isPremium = status.isPremium
    premiumExpiresAt = status.expiresAt
    premiumProductID = status.productID
    premiumOriginalTransactionID = status.originalTransactionID
    isInGracePeriod = status.isInGracePeriod
    willRenew = status.willRenew
    self.entitlements = answer
    serverTime = instant
  }
}

extension ProfileResponse: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlements", entitlements)
      json.member("isInGracePeriod", isInGracePeriod)
      json.member("isPremium", isPremium)
      json.member("premiumExpiresAt", premiumExpiresAt)
      json.member("premiumOriginalTransactionID", premiumOriginalTransactionID)
      json.member("premiumProductID", premiumProductID)
      json.member("serverTime", serverTime)
      json.member("willRenew", willRenew)
    }
  }
}

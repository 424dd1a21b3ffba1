import FoundationEssentials
import HTTP
import JSON
import Subscriptions

/// A user's premium status: the contract's answer of `…/profiles/{userID}/premium`.
struct ProfileAnswer: Sendable {
  var isPremium: Bool
  var premiumExpiresAt: Date?
  var premiumProductID: String?
  var premiumOriginalTransactionID: String?
  var isInGracePeriod: Bool
  var willRenew: Bool
  var entitlements: EntitlementsAnswer
  var serverTime: Date

  /// - Parameter answer: the same entitlements, as clients read them.
  init(_ entitlements: Entitlements, answer: EntitlementsAnswer, at instant: Date) {
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

extension ProfileAnswer: JSONWritable {
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

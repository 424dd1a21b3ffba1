import FoundationEssentials
import Subscriptions

/// A user's premium status: the contract's answer of `…/profiles/{userID}/premium`.
struct ProfileAnswer: Encodable, Sendable {
  var isPremium: Bool
  @Nullable var premiumExpiresAt: Date?
  @Nullable var premiumProductID: String?
  @Nullable var premiumOriginalTransactionID: String?
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

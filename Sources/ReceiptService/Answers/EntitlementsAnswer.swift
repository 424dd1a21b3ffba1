import FoundationEssentials
import Subscriptions

/// What a customer may do, as clients read it: the contract's `entitlements`.
struct EntitlementsAnswer: Encodable, Sendable {
  @Nullable var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  @Nullable var validUntil: Date?
  @Nullable var offlineGraceUntil: Date?

  init(_ entitlements: Entitlements) {
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    validUntil = entitlements.validUntil
    offlineGraceUntil = entitlements.offlineGraceUntil
  }
}

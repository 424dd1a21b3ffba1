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
  /// The same, signed, for a client to keep; `null` where nobody is named who it could be about.
  @Nullable var entitlementToken: String?

  /// For a client.
  /// - Parameter customer: whose they are; `nil` where that is not known: a token would be anybody's.
  init(
    _ entitlements: Entitlements, of app: App, for customer: Customer?, at instant: Date,
    signedBy signer: EntitlementSigner
  ) {
    self.init(entitlements)
    entitlementToken = customer.flatMap { signer.token(for: entitlements, of: app, to: $0, at: instant) }
  }

  /// For support, who must not be able to hand a customer's token on.
  init(_ entitlements: Entitlements) {
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    validUntil = entitlements.validUntil
    offlineGraceUntil = entitlements.offlineGraceUntil
  }
}

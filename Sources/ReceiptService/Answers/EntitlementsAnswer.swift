import FoundationEssentials
import HTTP
import JSON
import Subscriptions

/// What a customer may do, as clients read it: the contract's `entitlements`.
struct EntitlementsAnswer: Sendable {
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  var validUntil: Date?
  var offlineGraceUntil: Date?
  /// The same, signed, for a client to keep; `null` where nobody is named who it could be about.
  var entitlementToken: String?

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

extension EntitlementsAnswer: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlementToken", entitlementToken)
      json.member("features", features)
      json.member("isAccessGranted", isAccessGranted)
      json.member("offlineGraceUntil", offlineGraceUntil)
      json.member("status", status)
      json.member("tier", tier)
      json.member("validUntil", validUntil)
    }
  }
}

import Foundation
import HTTP
import JSON
import Subscriptions

/// The member `entitlements` of responses: a customer's entitlements.
struct EntitlementsResponse: Sendable {
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  var validUntil: Date?
  var offlineGraceUntil: Date?
  /// The signed entitlements, for a client to store; `null` without a customer.
  var entitlementToken: String?

  /// Creates the entitlements of a client's response.
  /// - Parameter customer: the customer; `nil` if unknown, and then there is no token, because any client could use it.
  init(
    _ entitlements: Entitlements, of app: App, for customer: Customer?, at instant: Date,
    signedBy signer: EntitlementSigner
  ) {
    self.init(entitlements)
    entitlementToken = customer.flatMap { signer.token(for: entitlements, of: app, to: $0, at: instant) }
  }

  /// Creates the entitlements of a report for support, without a token: support must not be able to pass one on.
  init(_ entitlements: Entitlements) {
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    validUntil = entitlements.validUntil
    offlineGraceUntil = entitlements.offlineGraceUntil
  }
}

extension EntitlementsResponse: JSONWritable {
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

import Foundation
import HTTP
import JSON
import Subscriptions

/// The member `entitlements` of responses: a customer's entitlements.
package struct EntitlementsResponse: Sendable {
  package var tier: String?
  package var status: String
  package var isAccessGranted: Bool
  package var features: Features
  package var validUntil: Date?
  var offlineGraceUntil: Date?
  var everHadAccess: Bool
  /// The signed entitlements, for a client to store; `null` without a customer.
  var entitlementToken: String?

  /// Creates the entitlements of a client's response.
  /// - Parameter customer: the customer; `nil` if unknown, and then there is no token, because any client could use it.
  package init(
    _ entitlements: Entitlements, of app: App, for customer: Customer?, at instant: Date,
    signedBy signer: EntitlementSigner
  ) {
    self.init(entitlements)
    entitlementToken = customer.flatMap { signer.token(for: entitlements, of: app, to: $0, at: instant) }
  }

  /// Creates the entitlements of a report for support, without a token: support must not be able to pass one on.
  package init(_ entitlements: Entitlements) {
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    validUntil = entitlements.validUntil
    offlineGraceUntil = entitlements.offlineGraceUntil
    everHadAccess = entitlements.everHadAccess
  }
}

extension EntitlementsResponse: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("entitlementToken", entitlementToken)
      json.member("everHadAccess", everHadAccess)
      json.member("features", features)
      json.member("isAccessGranted", isAccessGranted)
      json.member("offlineGraceUntil", offlineGraceUntil)
      json.member("status", status)
      json.member("tier", tier)
      json.member("validUntil", validUntil)
    }
  }
}

extension FeatureValue: JSONWritable {
  /// Writes a bare JSON value.
  public func write(to json: inout JSONWriter) {
    switch self {
    case .flag(let value): json.boolean(value)
    case .count(let value): json.integer(Int64(value))
    case .amount(let value): json.number(value)
    case .word(let value): json.string(value)
    case .unlimited: json.null()
    }
  }
}

extension Features: JSONWritable {
  /// Writes an object; members are ordered by the bytes of their names.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      for feature in ordered { json.member(named: feature.name, feature.value) }
    }
  }
}

/// The member `subscription` of responses.
package struct SubscriptionResponse: Sendable {
  package var tier: String?
  package var status: String
  package var expiryDate: Date?
  package var autoRenewEnabled: Bool
  package var productID: String
  package var originalTransactionID: String
  package var transactionID: String
  package var environment: String
  package var ownership: String
  package var storeStatus: String
  package var gracePeriodExpiryDate: Date?
  package var renewsAs: String?

  package init(_ subscription: Subscription, at instant: Date) {
    let phase = subscription.phase(at: instant)
    tier = subscription.tier(at: instant)
    status = phase.status.rawValue
    expiryDate = subscription.current.expiresDate
    autoRenewEnabled = subscription.autoRenewEnabled
    productID = subscription.productID(at: instant)
    originalTransactionID = subscription.current.originalTransactionID
    transactionID = subscription.current.transactionID
    environment = subscription.current.environment.rawValue
    ownership = subscription.current.ownership
    storeStatus = phase.storeStatus.rawValue
    gracePeriodExpiryDate = subscription.graceExpiresDate
    renewsAs = subscription.renewsAs
  }
}

extension SubscriptionResponse: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("autoRenewEnabled", autoRenewEnabled)
      json.member("environment", environment)
      json.member("expiryDate", expiryDate)
      json.member("gracePeriodExpiryDate", gracePeriodExpiryDate)
      json.member("originalTransactionID", originalTransactionID)
      json.member("ownership", ownership)
      json.member("productID", productID)
      json.member("renewsAs", renewsAs)
      json.member("status", status)
      json.member("storeStatus", storeStatus)
      json.member("tier", tier)
      json.member("transactionID", transactionID)
    }
  }
}

/// The response of `…/profiles/{userID}/premium`: a user's premium status.
package struct ProfileResponse: Sendable {
  var isPremium: Bool
  var premiumExpiresAt: Date?
  var premiumProductID: String?
  var premiumOriginalTransactionID: String?
  var isInGracePeriod: Bool
  package var willRenew: Bool
  package var entitlements: EntitlementsResponse
  package var serverTime: Date

  /// - Parameter answer: the same entitlements, for the member `entitlements`.
  package init(_ entitlements: Entitlements, answer: EntitlementsResponse, at instant: Date) {
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
  package func write(to json: inout JSONWriter) {
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

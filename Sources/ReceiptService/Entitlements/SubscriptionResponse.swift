import Foundation
import HTTP
import JSON
import Subscriptions

/// The member `subscription` of responses.
struct SubscriptionResponse: Sendable {
  var tier: String?
  var status: String
  var expiryDate: Date?
  var autoRenewEnabled: Bool
  var productID: String
  var originalTransactionID: String
  var transactionID: String
  var environment: String
  var ownership: String
  var storeStatus: String
  var gracePeriodExpiryDate: Date?
  var renewsAs: String?

  init(_ subscription: Subscription, at instant: Date) {
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
  func write(to json: inout JSONWriter) {
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

import FoundationEssentials
import Subscriptions

/// A subscription as clients read it: the contract's `subscription`.
struct SubscriptionAnswer: Encodable, Sendable {
  @Nullable var tier: String?
  var status: String
  @Nullable var expiryDate: Date?
  var autoRenewEnabled: Bool
  var productID: String
  var originalTransactionID: String
  var transactionID: String
  var environment: String
  var ownership: String
  var storeStatus: String
  @Nullable var gracePeriodExpiryDate: Date?
  @Nullable var renewsAs: String?

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

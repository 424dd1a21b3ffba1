import AppStore
import Foundation

extension SimulatedStore {
  /// Records and returns a notification about a transaction.
  mutating func notify(
    _ type: NotificationType, _ subtype: Subtype? = nil, about transactionID: String,
    consumptionRequestReason: ConsumptionRequestReason? = nil, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let signedDate = signingDate(at: now)
    var transaction = try transaction(transactionID)
    transaction.signedDate = signedDate
    transactions[transactionID] = transaction
    let app = try app(transaction.bundleId)
    var renewalInfo: RenewalInfo?
    var status: SubscriptionStatus?
    if let subscription = subscriptions[transaction.originalTransactionId] {
      renewalInfo = try self.renewalInfo(of: subscription, signedDate: signedDate)
      status = try self.status(of: subscription, at: signedDate)
    }
    let notification = StoreNotification(
      uuid: identifiers.uuid().uuidString.lowercased(), type: type, subtype: subtype, signedDate: signedDate,
      environment: environment, bundleID: app.bundleID, appAppleID: app.appAppleID,
      bundleVersion: app.version, status: status, transaction: transaction, renewalInfo: renewalInfo,
      consumptionRequestReason: consumptionRequestReason)
    notifications.append(notification)
    return StoreOutcome(notification: notification, transaction: transaction, renewalInfo: renewalInfo)
  }

  /// Sends the `TEST` notification.
  public mutating func test(bundleID: String, at now: Date) throws(StoreRefusal) -> StoreNotification {
    try announce(.test, bundleID: bundleID, at: now)
  }

  /// Records and returns a notification without a purchase.
  ///
  /// - Parameter fill: sets its content.
  mutating func announce(
    _ type: NotificationType, _ subtype: Subtype? = nil, bundleID: String, at now: Date,
    _ fill: (inout StoreNotification) -> Void = { _ in }
  ) throws(StoreRefusal) -> StoreNotification {
    let app = try app(bundleID)
    var notification = StoreNotification(
      uuid: identifiers.uuid().uuidString.lowercased(), type: type, subtype: subtype,
      signedDate: signingDate(at: now), environment: environment, bundleID: app.bundleID,
      appAppleID: app.appAppleID, bundleVersion: app.version)
    fill(&notification)
    notifications.append(notification)
    return notification
  }

  func renewalInfo(
    of subscription: StoreSubscription, signedDate: Date
  ) throws(StoreRefusal) -> RenewalInfo {
    let current = try current(of: subscription)
    let next = try product(subscription.renewsAs, of: subscription.bundleID)
    var info = RenewalInfo(
      originalTransactionId: subscription.originalTransactionID,
      autoRenewStatus: subscription.autoRenews ? .on : .off, signedDate: signedDate,
      environment: environment)
    info.productId = current.productId
    info.autoRenewProductId = next.id
    info.recentSubscriptionStartDate = subscription.recentStart
    info.renewalDate = current.expiresDate
    info.appAccountToken = current.appAccountToken
    info.appTransactionId = current.appTransactionId
    switch subscription.billing {
    case .settled:
      info.isInBillingRetryPeriod = false
    case .grace(let until):
      info.isInBillingRetryPeriod = true
      info.gracePeriodExpiresDate = until
      info.expirationIntent = .billingError
    case .retrying:
      info.isInBillingRetryPeriod = true
      info.expirationIntent = .billingError
    case .ended(let intent):
      info.isInBillingRetryPeriod = false
      info.expirationIntent = intent
    }
    if subscription.autoRenews {
      info.currency = next.currency
      info.renewalPrice = subscription.priceIncrease?.price ?? next.price
    }
    if let offer = subscription.nextOffer {
      info.renewalPrice = offer.price
      info.offerType = offer.type
      info.offerIdentifier = offer.identifier
      info.offerDiscountType = offer.discountType
      info.offerPeriod = offer.period.text
    }
    if let increase = subscription.priceIncrease {
      info.priceIncreaseStatus =
        increase.isAccepted
        ? .customerConsentedOrWasNotifiedWithoutNeedingConsent : .customerHasNotResponded
    }
    return info
  }
}

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

/// An event of a token for purchases outside of the store (`EXTERNAL_PURCHASE_TOKEN`).
public enum ExternalPurchaseEvent: String, Hashable, Sendable, CaseIterable {
  /// The token was created: `CREATED`.
  case created
  /// The token was not reported to Apple in time: `UNREPORTED`.
  case unreported
  /// The monthly reminder of an active token: `ACTIVE_TOKEN_REMINDER`.
  case reminder = "active-token-reminder"

  var subtype: Subtype {
    switch self {
    case .created: .created
    case .unreported: .unreported
    case .reminder: .activeTokenReminder
    }
  }
}

// Notifications about an app or a customer instead of a purchase.
extension SimulatedStore {
  /// Sends an event of an external purchase token: `EXTERNAL_PURCHASE_TOKEN`.
  ///
  /// - Parameter id: the id of the token; ignored for `created`.
  /// - Throws: ``StoreRefusal/unknownExternalPurchase(_:)`` if the token does not exist.
  public mutating func externalPurchase(
    _ event: ExternalPurchaseEvent, id: String? = nil, bundleID: String, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let app = try app(bundleID)
    let token: ExternalPurchaseToken
    if event == .created {
      var made = ExternalPurchaseToken()
      let prefix = environment == .sandbox ? "SANDBOX_" : ""
      made.externalPurchaseId = prefix + identifiers.uuid().uuidString.lowercased()
      made.tokenCreationDate = now.wholeMilliseconds
      // Apple documents no lifetime. A year leaves room for several monthly reminders.
      made.tokenExpirationDate = timeScale.date(now.wholeMilliseconds, adding: .year)
      made.tokenType = "SERVICES"
      made.appAppleId = app.appAppleID
      made.bundleId = bundleID
      externalPurchaseTokens[made.externalPurchaseId ?? ""] = made
      token = made
    } else {
      guard let known = externalPurchaseTokens[id ?? ""], known.bundleId == bundleID else {
        throw .unknownExternalPurchase(id ?? "")
      }
      token = known
    }
    return try announce(.externalPurchaseToken, event.subtype, bundleID: bundleID, at: now) {
      $0.externalPurchaseToken = token
    }
  }

  /// Withdraws a parent's consent to a child's use of the app: `RESCIND_CONSENT` with the app transaction of the
  /// child's account. Purchases do not change.
  public mutating func rescindConsent(
    bundleID: String, accountID: String? = nil, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let transaction = try appTransaction(of: bundleID, accountID: accountID, at: now)
    return try announce(.rescindConsent, bundleID: bundleID, at: now) { $0.appTransaction = transaction }
  }

  /// Reports the end of a mass extension: `RENEWAL_EXTENSION`, `SUMMARY`.
  ///
  /// - Parameter summary: product, request and counts; the store sets app and environment.
  public mutating func summarizeExtension(
    _ summary: NotificationSummary, bundleID: String, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    let app = try app(bundleID)
    var summary = summary
    summary.environment = environment
    summary.bundleId = bundleID
    summary.appAppleId = environment == .production ? app.appAppleID : nil
    return try announce(.renewalExtension, .summary, bundleID: bundleID, at: now) { $0.summary = summary }
  }
}

/// A notification before signing.
public struct StoreNotification: Hashable, Sendable {
  /// `notificationUUID`, in lower case.
  public var uuid: String
  /// `notificationType`.
  public var type: NotificationType
  /// `subtype`; nil if the type has none.
  public var subtype: Subtype?
  /// `signedDate` of the notification and its inner payloads.
  public var signedDate: Date
  /// Production or sandbox.
  public var environment: Environment
  /// The app's bundle id.
  public var bundleID: String
  /// The app's number.
  public var appAppleID: Int64
  /// `bundleVersion`.
  public var bundleVersion: String
  /// The subscription's status; nil for one-time purchases and `TEST`.
  public var status: SubscriptionStatus?
  /// The content of `signedTransactionInfo`.
  public var transaction: TransactionInfo?
  /// The content of `signedRenewalInfo`.
  public var renewalInfo: RenewalInfo?
  /// The reason of the refund request.
  public var consumptionRequestReason: ConsumptionRequestReason?
  /// The outcome of a mass extension; replaces a purchase.
  public var summary: NotificationSummary?
  /// A token for purchases outside of the store; replaces a purchase.
  public var externalPurchaseToken: ExternalPurchaseToken?
  /// The content of `signedAppTransactionInfo`; replaces a purchase.
  public var appTransaction: AppTransaction?
}

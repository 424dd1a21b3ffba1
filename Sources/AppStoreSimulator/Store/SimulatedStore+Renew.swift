import AppStore
import Foundation

extension SimulatedStore {
  mutating func renew(_ id: String, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let subscription = try renewable(id)
    guard subscription.autoRenews else { throw .renewalIsOff }
    return try startNextPeriod(of: subscription, .didRenew, nil, at: now)
  }

  mutating func recover(_ id: String, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let subscription = try renewable(id)
    guard subscription.billing.hasFailed else { throw .notInBillingRetry }
    guard subscription.autoRenews else { throw .renewalIsOff }
    if now >= retryEnd(after: try current(of: subscription)) { throw .ended }
    return try startNextPeriod(of: subscription, .didRenew, .billingRecovery, at: now)
  }

  mutating func failToRenew(
    _ id: String, grace: Bool?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    guard subscription.autoRenews else { throw .renewalIsOff }
    if subscription.billing.hasFailed { throw .inBillingRetry }
    let setting = try app(subscription.bundleID).billingGrace
    let length = grace == false ? nil : setting ?? (grace == true ? StorePeriod(16, .day) : nil)
    if let length, let expiresDate = try current(of: subscription).expiresDate {
      subscription.billing = .grace(until: timeScale.date(expiresDate, adding: length))
    } else {
      subscription.billing = .retrying
    }
    subscriptions[id] = subscription
    return try notify(
      .didFailToRenew, length == nil ? nil : .gracePeriod, about: current(of: subscription).transactionId,
      at: now)
  }

  mutating func endGrace(_ id: String, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    guard case .grace(let until) = subscription.billing else { throw .notInBillingGrace }
    if now < until { throw .billingGraceRuns(until: until) }
    subscription.billing = .retrying
    subscriptions[id] = subscription
    return try notify(.gracePeriodExpired, about: current(of: subscription).transactionId, at: now)
  }

  mutating func expire(
    _ id: String, intent: ExpirationIntent?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    let current = try current(of: subscription)
    if let expiresDate = current.expiresDate, now < expiresDate { throw .paidTimeRuns(until: expiresDate) }
    if case .grace(let until) = subscription.billing, now < until { throw .billingGraceRuns(until: until) }
    let intent = intent ?? (subscription.billing.hasFailed ? .billingError : .customerCancelled)
    if intent == .billingError, !subscription.billing.hasFailed { throw .notInBillingRetry }
    subscription.billing = .ended(intent)
    subscription.autoRenews = false
    subscriptions[id] = subscription
    let subtype: Subtype? =
      switch intent {
      case .customerCancelled: .voluntary
      case .billingError: .billingRetry
      case .customerDidNotConsentToPriceIncrease: .priceIncrease
      case .productNotAvailable: .productNotForSale
      default: nil
      }
    return try notify(.expired, subtype, about: current.transactionId, at: now)
  }

  mutating func extend(_ id: String, days: Int, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let subscription = try renewable(id)
    var current = try current(of: subscription)
    // Apple extends neither after a failed charge nor after the end.
    if subscription.billing.hasFailed { throw .inBillingRetry }
    guard try status(of: subscription, at: now) == .active else { throw .notActive }
    current.expiresDate = current.expiresDate.map { timeScale.date($0, adding: StorePeriod(days, .day)) }
    transactions[current.transactionId] = current
    return try notify(.renewalExtended, about: current.transactionId, at: now)
  }

  /// Returns a subscription that is neither ended nor refunded.
  func renewable(_ id: String) throws(StoreRefusal) -> StoreSubscription {
    let subscription = try subscription(id)
    if case .ended = subscription.billing { throw .ended }
    if try current(of: subscription).revocationDate != nil { throw .revoked }
    return subscription
  }

  private mutating func startNextPeriod(
    of subscription: StoreSubscription, _ type: NotificationType, _ subtype: Subtype?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let product = try product(subscription.renewsAs, of: subscription.bundleID)
    let previous = try current(of: subscription)
    let period = subscription.nextOffer?.period ?? product.period ?? .month
    let (start, end) = nextPeriod(after: previous, of: period, billing: subscription.billing, at: now)

    var transaction = newTransaction(of: product, in: subscription.bundleID, at: start)
    transaction.transactionReason = .renewal
    makeSuccessor(&transaction, of: previous)
    transaction.expiresDate = end
    transaction.inAppOwnershipType = previous.inAppOwnershipType
    transaction.appTransactionId = previous.appTransactionId
    transaction.appAccountToken = previous.appAccountToken
    if let increase = subscription.priceIncrease, increase.isAccepted { transaction.price = increase.price }
    if let offer = subscription.nextOffer { transaction.apply(offer) }
    transactions[transaction.transactionId] = transaction

    var subscription = subscription
    subscription.transactionIDs.append(transaction.transactionId)
    subscription.billing = .settled
    subscription.autoRenews = true
    subscription.nextOffer = nil
    subscriptions[subscription.originalTransactionID] = subscription
    return try notify(type, subtype, about: transaction.transactionId, at: now)
  }

  /// The start and end of the period after `previous`.
  ///
  /// The App Store charges up to a day ahead, and the new period follows the old one. It also follows after a late
  /// charge within billing grace, and after a late command. It starts at the payment if the customer had no access
  /// before, or if a following period would be over already. A renewal long before its due date starts now and extends
  /// the paid time by a period.
  private func nextPeriod(
    after previous: TransactionInfo, of period: StorePeriod, billing: StoreSubscription.Billing, at now: Date
  ) -> (start: Date, end: Date) {
    let now = now.wholeMilliseconds
    let due = previous.expiresDate ?? now
    let followingEnd = timeScale.date(due, adding: period)
    if timeScale.date(now, adding: StorePeriod(1, .day)) < due { return (now, followingEnd) }
    if billing == .retrying || followingEnd <= now { return (now, timeScale.date(now, adding: period)) }
    return (due, followingEnd)
  }
}

extension StoreSubscription.Billing {
  /// Whether a charge failed and may still succeed.
  var hasFailed: Bool {
    switch self {
    case .grace, .retrying: true
    case .settled, .ended: false
    }
  }
}

extension SimulatedStore {
  /// Extends one subscription by the rules of the App Store Server API: `RENEWAL_EXTENDED`.
  mutating func extend(
    _ id: String, in bundleID: String, days: Int, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    guard let subscription = subscriptions[id], subscription.bundleID == bundleID else {
      throw .serverAPI(.originalTransactionIdNotFound)
    }
    let current = try current(of: subscription)
    if current.inAppOwnershipType == .familyShared {
      throw .serverAPI(.familySharedSubscriptionExtensionIneligible)
    }
    guard try status(of: subscription, at: now) == .active, current.offerDiscountType != .freeTrial,
      subscription.billing == .settled
    else { throw .serverAPI(.subscriptionExtensionIneligible) }
    let withinYear = subscription.extensionDates.filter {
      timeScale.date($0, adding: StorePeriod(365, .day)) > now
    }
    guard withinYear.count < 2 else { throw .serverAPI(.subscriptionMaxExtension) }
    let outcome = try perform(.extend(days: days), on: id, at: now)
    subscriptions[id]?.extensionDates.append(now)
    return outcome
  }

  /// Extends every active subscription of a product: `RENEWAL_EXTENDED` for each, `RENEWAL_EXTENSION` with
  /// `FAILURE` for each that cannot be extended, and `RENEWAL_EXTENSION` with `SUMMARY` at the end.
  ///
  /// - Returns: the notifications; none for a request identifier that was used before.
  mutating func extendAll(
    _ request: MassExtendRenewalDateRequest, in bundleID: String, at now: Date
  ) throws(StoreRefusal) -> [StoreNotification] {
    let (product, identifier) = (request.productId, request.requestIdentifier)
    guard massExtension(of: product, identifier, in: bundleID) == nil else { return [] }
    var summary = NotificationSummary(environment: environment, bundleId: bundleID)
    summary.productId = product
    summary.requestIdentifier = identifier
    summary.storefrontCountryCodes = request.storefrontCountryCodes
    var (succeeded, failed) = (Int64(0), Int64(0))
    var sent: [StoreNotification] = []
    // Sorted, so that one seed always gives the same notifications.
    for id in subscriptions.keys.sorted() where try isActive(id, in: bundleID, for: request, at: now) {
      do throws(StoreRefusal) {
        let outcome = try extend(id, in: bundleID, days: Int(request.extendByDays), at: now)
        succeeded += 1
        sent += [outcome.notification] + outcome.others
      } catch .serverAPI {
        failed += 1
        sent.append(try perform(.failToExtend, on: id, at: now).notification)
      }
    }
    summary.succeededCount = succeeded
    summary.failedCount = failed
    return sent + [try summarizeExtension(summary, bundleID: bundleID, at: now)]
  }

  /// The notification at the end of a mass extension; nil for an unknown one.
  func massExtension(
    of productID: String, _ requestIdentifier: String, in bundleID: String
  ) -> StoreNotification? {
    notifications.first {
      $0.bundleID == bundleID && $0.summary?.productId == productID
        && $0.summary?.requestIdentifier == requestIdentifier
    }
  }

  /// Whether a mass extension applies to a subscription. A family member's is extended with the purchaser's.
  private func isActive(
    _ id: String, in bundleID: String, for request: MassExtendRenewalDateRequest, at now: Date
  ) throws(StoreRefusal) -> Bool {
    let subscription = try subscription(id)
    let current = try current(of: subscription)
    guard current.bundleId == bundleID, current.productId == request.productId,
      current.inAppOwnershipType != .familyShared,
      try status(of: subscription, at: now) == .active
    else { return false }
    guard let storefronts = request.storefrontCountryCodes else { return true }
    return current.storefront.map(storefronts.contains) ?? false
  }
}

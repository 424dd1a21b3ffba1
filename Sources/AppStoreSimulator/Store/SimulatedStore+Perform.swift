import AppStore
import Foundation

extension SimulatedStore {
  /// Carries out a command on a purchase.
  ///
  /// - Parameters:
  ///   - originalTransactionID: the subscription; for commands about refunds, any purchase.
  ///   - now: the time of the command.
  /// - Throws: ``StoreRefusal`` if the App Store would refuse it. The store has not changed then.
  public mutating func perform(
    _ command: SubscriptionCommand, on originalTransactionID: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    if let purchaser = sharing.purchaser(of: originalTransactionID), command != .revoke {
      throw .followsPurchaser(originalTransactionID: purchaser)
    }
    var outcome = try carryOut(command, on: originalTransactionID, at: now)
    if command.reachesFamily {
      outcome.others += try tellFamily(of: originalTransactionID, outcome.notification, at: now)
    }
    return outcome
  }

  private mutating func carryOut(
    _ command: SubscriptionCommand, on id: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    switch command {
    case .renew: return try renew(id, at: now)
    case .failToRenew(let grace): return try failToRenew(id, grace: grace, at: now)
    case .recover: return try recover(id, at: now)
    case .endGrace: return try endGrace(id, at: now)
    case .expire(let intent): return try expire(id, intent: intent, at: now)
    case .extend(let days): return try extend(id, days: days, at: now)
    case .setAutoRenew(let autoRenews): return try setAutoRenew(id, autoRenews, at: now)
    case .changeProduct(let productID, let token):
      return try changeProduct(id, to: productID, appAccountToken: token, at: now)
    case .redeem(let offer, let productID):
      return try redeem(offer, on: id, productID: productID, at: now)
    case .announcePrice(let price): return try announcePrice(id, price, at: now)
    case .acceptPrice: return try acceptPrice(id, at: now)
    case .failToExtend:
      return try notify(
        .renewalExtension, .failure, about: current(of: subscription(id)).transactionId, at: now)
    case .refund(let transactionID, let percentage, let reason):
      return try refund(
        latest(of: id, unless: transactionID), percentage: percentage ?? 100,
        reason: reason ?? .refundedForOtherReason, at: now)
    case .declineRefund(let transactionID):
      return try notify(.refundDeclined, about: latest(of: id, unless: transactionID), at: now)
    case .reverseRefund(let transactionID):
      return try reverseRefund(latest(of: id, unless: transactionID), at: now)
    case .requestConsumption(let transactionID, let reason):
      return try notify(
        .consumptionRequest, about: latest(of: id, unless: transactionID),
        consumptionRequestReason: reason ?? .unintendedPurchase, at: now)
    case .revoke: return try revoke(id, at: now)
    case .share(let accountID): return try share(id, with: accountID, at: now)
    }
  }

  /// Returns the named transaction, which must belong to the purchase, or else the latest transaction of the purchase.
  private func latest(
    of originalTransactionID: String, unless named: String?
  ) throws(StoreRefusal) -> String {
    if let named {
      guard try transaction(named).originalTransactionId == originalTransactionID else {
        throw .unknownTransaction(named)
      }
      return named
    }
    if let latest = subscriptions[originalTransactionID]?.transactionIDs.last { return latest }
    return try transaction(originalTransactionID).transactionId
  }
}

extension SubscriptionCommand {
  /// Whether the command applies to the family members' purchases too.
  fileprivate var reachesFamily: Bool {
    switch self {
    case .renew, .failToRenew, .recover, .endGrace, .expire, .setAutoRenew, .changeProduct, .redeem, .extend,
      .refund:
      true
    case .declineRefund, .reverseRefund, .revoke, .share, .failToExtend, .announcePrice, .acceptPrice,
      .requestConsumption:
      false
    }
  }
}

extension SimulatedStore {
  mutating func setAutoRenew(
    _ id: String, _ autoRenews: Bool, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    subscription.autoRenews = autoRenews
    subscriptions[id] = subscription
    return try notify(
      .didChangeRenewalStatus, autoRenews ? .autoRenewEnabled : .autoRenewDisabled,
      about: current(of: subscription).transactionId, at: now)
  }

  /// Apple's rule: a higher level, or the same level with the same length, takes effect at once; a lower level or
  /// another length waits for the renewal.
  mutating func changeProduct(
    _ id: String, to productID: String, appAccountToken: UUID?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    try change(
      renewable(id), to: productID, offer: nil, appAccountToken: appAccountToken,
      announcing: .didChangeRenewalPref, at: now)
  }

  /// Redeems an offer in an active subscription: for the next period of the current product, or together with a change
  /// to another product.
  mutating func redeem(
    _ offer: StoreOffer, on id: String, productID: String?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let subscription = try renewable(id)
    guard [.active, .billingGracePeriod].contains(try status(of: subscription, at: now)) else {
      throw .notActive
    }
    // The other kinds are for customers without an active subscription.
    guard [.promotionalOffer, .offerCode].contains(offer.type) else { throw .notEligible(offer.type) }
    let present = try current(of: subscription).productId
    return try change(
      subscription, to: productID ?? present, offer: offer, appAccountToken: nil,
      announcing: .offerRedeemed, at: now)
  }

  private mutating func change(
    _ subscription: StoreSubscription, to productID: String, offer: StoreOffer?, appAccountToken: UUID?,
    announcing type: NotificationType, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let current = try current(of: subscription)
    let next = try product(productID, of: subscription.bundleID)
    let present = try product(current.productId, of: subscription.bundleID)
    guard next.group == present.group else { throw .otherGroup(productID) }
    if next.id != present.id,
      next.rank > present.rank || (next.rank == present.rank && next.period == present.period)
    {
      let transactionID = try upgrade(
        subscription, to: next, offer: offer, appAccountToken: appAccountToken, at: now)
      return try notify(type, .upgrade, about: transactionID, at: now)
    }
    var subscription = subscription
    subscription.renewsAs = productID
    subscription.autoRenews = true
    subscription.priceIncrease = nil
    subscription.nextOffer = offer
    subscriptions[subscription.originalTransactionID] = subscription
    return try notify(
      type, next.id == present.id ? nil : .downgrade, about: current.transactionId, at: now)
  }

  /// - Returns: the id of the new transaction.
  private mutating func upgrade(
    _ subscription: StoreSubscription, to product: StoreProduct, offer: StoreOffer?, appAccountToken: UUID?,
    at now: Date
  ) throws(StoreRefusal) -> String {
    var replaced = try current(of: subscription)
    replaced.isUpgraded = true
    transactions[replaced.transactionId] = replaced

    var transaction = newTransaction(of: product, in: subscription.bundleID, at: now.wholeMilliseconds)
    makeSuccessor(&transaction, of: replaced)
    setFirstPeriod(of: &transaction, product: product, offer: offer)
    transaction.inAppOwnershipType = replaced.inAppOwnershipType
    transaction.appTransactionId = replaced.appTransactionId
    transaction.appAccountToken = appAccountToken ?? replaced.appAccountToken
    transactions[transaction.transactionId] = transaction

    var subscription = subscription
    subscription.transactionIDs.append(transaction.transactionId)
    subscription.renewsAs = product.id
    subscription.autoRenews = true
    subscription.billing = .settled
    subscription.priceIncrease = nil
    subscription.nextOffer = nil
    subscriptions[subscription.originalTransactionID] = subscription
    return transaction.transactionId
  }

  mutating func announcePrice(
    _ id: String, _ price: Int64, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    subscription.priceIncrease = .init(price: price, isAccepted: false)
    subscriptions[id] = subscription
    return try notify(.priceIncrease, .pending, about: current(of: subscription).transactionId, at: now)
  }

  mutating func acceptPrice(_ id: String, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    guard subscription.priceIncrease != nil else { throw .noPriceIncrease }
    subscription.priceIncrease?.isAccepted = true
    subscriptions[id] = subscription
    return try notify(.priceIncrease, .accepted, about: current(of: subscription).transactionId, at: now)
  }
}

extension SimulatedStore {
  /// Refunds one transaction. A refund of the current period also turns renewal off, with a second notification; a
  /// refund of an earlier period does not.
  mutating func refund(
    _ transactionID: String, percentage: Int, reason: RevocationReason, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var transaction = try transaction(transactionID)
    if transaction.revocationDate != nil { throw .alreadyRefunded }
    let percentage = min(max(percentage, 1), 100)
    transaction.revocationDate = now.wholeMilliseconds
    transaction.revocationReason = reason
    transaction.revocationType = percentage == 100 ? .refundFull : .refundProrated
    // Thousandths of a percent.
    transaction.revocationPercentage = Int32(percentage) * 1000
    transactions[transactionID] = transaction
    let stopped = stopRenewing(after: transaction)
    var outcome = try notify(.refund, about: transactionID, at: now)
    if stopped {
      outcome.others.append(
        try notify(.didChangeRenewalStatus, .autoRenewDisabled, about: transactionID, at: now).notification)
    }
    return outcome
  }

  /// Reverses a refund. Renewal stays off until the customer turns it on.
  mutating func reverseRefund(
    _ transactionID: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var transaction = try transaction(transactionID)
    if transaction.revocationDate == nil || transaction.revocationType == .familyRevoke {
      throw .notRefunded
    }
    transaction.revocationDate = nil
    transaction.revocationReason = nil
    transaction.revocationType = nil
    transaction.revocationPercentage = nil
    transactions[transactionID] = transaction
    return try notify(.refundReversed, about: transactionID, at: now)
  }

  mutating func revoke(_ id: String, at now: Date) throws(StoreRefusal) -> StoreOutcome {
    let latest = subscriptions[id]?.transactionIDs.last ?? id
    var transaction = try transaction(latest)
    guard transaction.inAppOwnershipType == .familyShared else { throw .notFamilyShared }
    if transaction.revocationDate != nil { throw .alreadyRefunded }
    transaction.revocationDate = now.wholeMilliseconds
    transaction.revocationReason = .refundedForOtherReason
    transaction.revocationType = .familyRevoke
    transactions[latest] = transaction
    sharing.end(for: id)
    _ = stopRenewing(after: transaction)
    return try notify(.revoke, about: latest, at: now)
  }

  /// - Returns: whether renewal was on.
  private mutating func stopRenewing(after transaction: TransactionInfo) -> Bool {
    let id = transaction.originalTransactionId
    guard let subscription = subscriptions[id],
      subscription.transactionIDs.last == transaction.transactionId
    else { return false }
    subscriptions[id]?.autoRenews = false
    return subscription.autoRenews
  }
}

extension SimulatedStore {
  /// Sets the app's own customer id on a purchase, as Set App Account Token does. All later payloads carry it,
  /// including renewals.
  mutating func setAppAccountToken(
    _ token: UUID, of transactionID: String, in bundleID: String, at now: Date
  ) throws(StoreRefusal) {
    guard let transaction = transactions[transactionID], transaction.bundleId == bundleID else {
      throw .serverAPI(.originalTransactionIdNotFound)
    }
    guard transaction.originalTransactionId == transactionID else {
      throw .serverAPI(.transactionIdNotOriginalTransactionId)
    }
    // The token belongs to the purchaser.
    guard transaction.inAppOwnershipType != .familyShared else {
      throw .serverAPI(.familyTransactionNotSupported)
    }
    let signedDate = signingDate(at: now)
    for id in transactionIDs(of: transactionID) {
      transactions[id]?.appAccountToken = token
      transactions[id]?.signedDate = signedDate
    }
  }
}

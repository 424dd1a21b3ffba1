import AppStore
import Foundation

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
    transaction.continues(replaced, lastSigned: lastSigned)
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

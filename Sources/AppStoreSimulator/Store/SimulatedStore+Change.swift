import AppStore
import FoundationEssentials

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

  /// Apple's rule: a higher level, or the same level for the same length of time, is bought at once; a
  /// lower level or another length waits for the renewal.
  mutating func changeProduct(
    _ id: String, to productID: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var subscription = try renewable(id)
    let current = try current(of: subscription)
    let next = try product(productID, of: subscription.bundleID)
    let present = try product(current.productId, of: subscription.bundleID)
    guard next.group == present.group else { throw .otherGroup(productID) }
    if next.id != present.id,
      next.rank > present.rank || (next.rank == present.rank && next.period == present.period)
    {
      return try upgrade(subscription, to: next, at: now)
    }
    subscription.renewsAs = productID
    subscription.autoRenews = true
    subscription.priceIncrease = nil
    subscriptions[id] = subscription
    return try notify(
      .didChangeRenewalPref, next.id == present.id ? nil : .downgrade, about: current.transactionId, at: now)
  }

  private mutating func upgrade(
    _ subscription: StoreSubscription, to product: StoreProduct, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var replaced = try current(of: subscription)
    replaced.isUpgraded = true
    transactions[replaced.transactionId] = replaced

    var transaction = newTransaction(of: product, in: subscription.bundleID, at: now.wholeMilliseconds)
    transaction.continues(replaced)
    transaction.expiresDate = product.period.map { timeScale.date(transaction.purchaseDate, adding: $0) }
    transaction.inAppOwnershipType = replaced.inAppOwnershipType
    transaction.appTransactionId = replaced.appTransactionId
    transaction.appAccountToken = replaced.appAccountToken
    transactions[transaction.transactionId] = transaction

    var subscription = subscription
    subscription.transactionIDs.append(transaction.transactionId)
    subscription.renewsAs = product.id
    subscription.autoRenews = true
    subscription.billing = .settled
    subscription.priceIncrease = nil
    subscriptions[subscription.originalTransactionID] = subscription
    return try notify(.didChangeRenewalPref, .upgrade, about: transaction.transactionId, at: now)
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

import AppStore
import Foundation

extension SimulatedStore {
  /// The state at `now` of the purchase with a transaction, original or later; nil for an unknown id.
  public func truth(of transactionID: String, at now: Date) -> PurchaseTruth? {
    guard let named = transactions[transactionID] else { return nil }
    guard let subscription = subscriptions[named.originalTransactionId] else {
      return truth(of: named, status: named.revocationDate == nil ? .active : .revoked, at: now)
    }
    guard let current = try? current(of: subscription),
      let status = try? status(of: subscription, at: now)
    else { return nil }
    var truth = truth(of: current, status: status, at: now)
    if case .grace(let until) = subscription.billing { truth.gracePeriodExpiresDate = until }
    truth.autoRenews = subscription.autoRenews
    truth.renewsAs = subscription.autoRenews ? subscription.renewsAs : nil
    if current.purchaseDate > now {
      truth.entitledProductID = entitledProductID(of: subscription, at: now) ?? current.productId
    }
    return truth
  }

  /// The product that is paid for at `now`: before a renewal charged ahead begins, the previous one. A purchase or an
  /// upgrade counts at once.
  private func entitledProductID(of subscription: StoreSubscription, at now: Date) -> String? {
    var periods = subscription.transactionIDs.lazy.reversed().compactMap { transactions[$0] }.makeIterator()
    var entitled = periods.next()
    while let period = entitled, period.purchaseDate > now, period.transactionReason == .renewal,
      let before = periods.next(), before.revocationDate == nil, now < before.expiresDate ?? .distantFuture
    {
      entitled = before
    }
    return entitled?.productId
  }

  private func truth(
    of current: TransactionInfo, status: SubscriptionStatus, at now: Date
  ) -> PurchaseTruth {
    PurchaseTruth(
      originalTransactionID: current.originalTransactionId, transactionID: current.transactionId,
      bundleID: current.bundleId, environment: environment, productID: current.productId,
      entitledProductID: current.productId, type: current.type, ownership: current.inAppOwnershipType,
      appAccountToken: current.appAccountToken, purchaseDate: current.purchaseDate,
      expiresDate: current.expiresDate, status: status,
      grantsAccess: status == .active || status == .billingGracePeriod, autoRenews: false, asOf: now)
  }

  /// The status of a subscription at `now`. Time alone can end a period.
  func status(
    of subscription: StoreSubscription, at now: Date
  ) throws(StoreRefusal) -> SubscriptionStatus {
    let current = try current(of: subscription)
    if current.revocationDate != nil { return .revoked }
    if let expiresDate = current.expiresDate, now < expiresDate { return .active }
    switch subscription.billing {
    case .settled, .ended: return .expired
    case .grace(let until) where now < until: return .billingGracePeriod
    case .grace, .retrying: return now < retryEnd(after: current) ? .billingRetry : .expired
    }
  }

  /// The end of billing retry after `transaction`: Apple retries for at most 60 days.
  func retryEnd(after transaction: TransactionInfo) -> Date {
    transaction.expiresDate.map { timeScale.date($0, adding: StorePeriod(60, .day)) } ?? .distantFuture
  }
}

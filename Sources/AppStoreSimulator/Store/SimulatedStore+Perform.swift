import AppStore
import FoundationEssentials

extension SimulatedStore {
  /// Makes something happen to a purchase.
  ///
  /// - Parameters:
  ///   - command: what happens.
  ///   - originalTransactionID: the subscription; for refunds and what belongs to them, any purchase.
  ///   - now: when.
  /// - Throws: ``StoreRefusal`` where the App Store would not do it. Nothing has changed then.
  public mutating func perform(
    _ command: SubscriptionCommand, on originalTransactionID: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let id = originalTransactionID
    switch command {
    case .renew: return try renew(id, at: now)
    case .failToRenew(let grace): return try failToRenew(id, grace: grace, at: now)
    case .recover: return try recover(id, at: now)
    case .endGrace: return try endGrace(id, at: now)
    case .expire(let intent): return try expire(id, intent: intent, at: now)
    case .extend(let days): return try extend(id, days: days, at: now)
    case .setAutoRenew(let autoRenews): return try setAutoRenew(id, autoRenews, at: now)
    case .changeProduct(let productID): return try changeProduct(id, to: productID, at: now)
    case .announcePrice(let price): return try announcePrice(id, price, at: now)
    case .acceptPrice: return try acceptPrice(id, at: now)
    case .refund(let transactionID, let percentage, let reason):
      return try refund(
        latest(of: id, unless: transactionID), percentage: percentage, reason: reason, at: now)
    case .declineRefund(let transactionID):
      return try notify(.refundDeclined, about: latest(of: id, unless: transactionID), at: now)
    case .reverseRefund(let transactionID):
      return try reverseRefund(latest(of: id, unless: transactionID), at: now)
    case .requestConsumption(let transactionID, let reason):
      return try notify(
        .consumptionRequest, about: latest(of: id, unless: transactionID),
        consumptionRequestReason: reason, at: now)
    case .revoke: return try revoke(id, at: now)
    }
  }

  /// The transaction that was named, which must be of the purchase, or else the purchase's latest.
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

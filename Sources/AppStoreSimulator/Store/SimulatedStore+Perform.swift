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

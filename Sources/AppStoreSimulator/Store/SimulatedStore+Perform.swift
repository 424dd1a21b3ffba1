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
    case .changePrice(let price): return try changePrice(id, price, at: now)
    case .updateMetadata: return try notifyUnchanged(id, .metadataUpdate, at: now)
    case .migrate: return try notifyUnchanged(id, .migration, at: now)
    case .failToExtend: return try notifyUnchanged(id, .renewalExtension, .failure, at: now)
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
    case .share(let accountID): return try share(id, with: accountID, at: now)
    }
  }

  /// Says something of a subscription that has nothing to do with its time or its renewal.
  private mutating func notifyUnchanged(
    _ id: String, _ type: NotificationType, _ subtype: Subtype? = nil, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    try notify(type, subtype, about: current(of: subscription(id)).transactionId, at: now)
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

extension SubscriptionCommand {
  /// Whether the members of the purchaser's family are told what became of theirs.
  fileprivate var reachesFamily: Bool {
    switch self {
    case .renew, .failToRenew, .recover, .endGrace, .expire, .setAutoRenew, .changeProduct, .redeem, .extend,
      .refund:
      true
    case .declineRefund, .reverseRefund, .revoke, .share, .failToExtend, .announcePrice, .acceptPrice,
      .changePrice, .updateMetadata, .migrate, .requestConsumption:
      false
    }
  }
}

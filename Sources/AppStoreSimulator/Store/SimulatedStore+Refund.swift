import AppStore
import FoundationEssentials

extension SimulatedStore {
  /// Refunds one transaction. Where it is the one that a subscription stands on, the subscription will not
  /// renew; a refund of an earlier period leaves it as it is.
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
    stopRenewing(after: transaction)
    return try notify(.refund, about: transactionID, at: now)
  }

  /// Takes a refund back. Renewal stays off: the customer has to turn it on again.
  mutating func reverseRefund(
    _ transactionID: String, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    var transaction = try transaction(transactionID)
    if transaction.revocationDate == nil { throw .notRefunded }
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
    stopRenewing(after: transaction)
    return try notify(.revoke, about: latest, at: now)
  }

  private mutating func stopRenewing(after transaction: TransactionInfo) {
    let id = transaction.originalTransactionId
    guard subscriptions[id]?.transactionIDs.last == transaction.transactionId else { return }
    subscriptions[id]?.autoRenews = false
  }
}

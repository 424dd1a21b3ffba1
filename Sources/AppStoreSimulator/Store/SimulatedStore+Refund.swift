import AppStore
import Foundation

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

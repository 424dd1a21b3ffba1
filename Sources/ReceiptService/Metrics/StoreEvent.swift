import Foundation
import Subscriptions

/// A purchase, renewal or refund that was not known before.
struct StoreEvent: Sendable, Hashable {
  enum Kind: Sendable { case purchase, renewal, refund }

  var kind: Kind
  /// The time of the event.
  var at: Date
  var isProduction: Bool
  /// Whether the purchaser was charged.
  var isPaid = false
  /// Whether all periods before it are free. Then it is the first paid period and not a renewal of one.
  var followsFreePeriods = false
  /// Whether it begins a trial of the App Store: a free first period.
  var startsTrial = false

  /// The events of a new or changed transaction.
  /// - Parameters:
  ///   - known: the transaction as it was known before.
  ///   - facts: all facts of the purchase, this transaction included.
  static func events(
    of record: TransactionRecord, after known: TransactionFact?, in facts: SubscriptionFacts
  ) -> [StoreEvent] {
    let fact = record.fact
    // A family member's transaction counts nothing: the purchaser's transaction has the same events.
    guard fact.ownership == "PURCHASED" else { return [] }
    var events: [StoreEvent] = []
    let isProduction = fact.environment == .production
    if known == nil, !facts.isRestored(fact) {
      events.append(
        StoreEvent(
          kind: record.isRenewal ? .renewal : .purchase, at: fact.purchaseDate, isProduction: isProduction,
          isPaid: fact.isPaid, followsFreePeriods: facts.followsFreePeriods(fact),
          startsTrial: fact.kind == .autoRenewable && !fact.isPaid
            && fact.transactionID == fact.originalTransactionID))
    }
    if let revoked = fact.revocationDate, known?.revocationDate == nil {
      events.append(StoreEvent(kind: .refund, at: revoked, isProduction: isProduction))
    }
    return events
  }
}

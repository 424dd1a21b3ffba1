import FoundationEssentials
import Subscriptions

/// Something that happened in the store and was not known before.
struct StoreEvent: Sendable, Hashable {
  enum Kind: Sendable { case purchase, renewal, refund }

  var kind: Kind
  /// When it happened.
  var at: Date
  var isProduction: Bool
  /// Whether the purchaser was charged.
  var isPaid = false
  /// Whether a free period comes before it, and no paid one: the period is the first that can be paid, not a renewal of
  /// one that was.
  var followsFreePeriods = false

  /// What a transaction that is news tells.
  /// - Parameters:
  ///   - known: the latest word on it before.
  ///   - facts: everything known of the purchase, this transaction included.
  static func told(
    by record: TransactionRecord, after known: TransactionFact?, in facts: SubscriptionFacts
  ) -> [StoreEvent] {
    let fact = record.fact
    // A family member pays nothing; what happens to the purchase happens to the purchaser's transaction.
    guard fact.ownership == "PURCHASED" else { return [] }
    var events: [StoreEvent] = []
    let isProduction = fact.environment == .production
    if known == nil {
      events.append(
        StoreEvent(
          kind: record.isRenewal ? .renewal : .purchase, at: fact.purchaseDate, isProduction: isProduction,
          isPaid: fact.isPaid, followsFreePeriods: facts.followsFreePeriods(fact)))
    }
    if let revoked = fact.revocationDate, known?.revocationDate == nil {
      events.append(StoreEvent(kind: .refund, at: revoked, isProduction: isProduction))
    }
    return events
  }
}

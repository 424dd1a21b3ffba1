import AppStore
import Customers
import Foundation
import Ledger
import Subscriptions

/// The events of new and changed transactions.
extension PurchaseChange {
  /// How a transaction came to be.
  private enum Origin {
    /// The first purchase.
    case first
    /// A purchase after the end or the refund of the one before.
    case again
    case renewal
    /// Another product of the group, at once.
    case change
  }

  /// - Parameter standing: the purchases of ``after`` that stand.
  func transactionEvents(_ record: TransactionRecord, among standing: [TransactionFact]) -> [LifecycleEvent] {
    guard let fact = after.transactions[record.fact.transactionID], fact.kind != .consumable else {
      return []
    }
    let known = before.transactions[fact.transactionID]
    var events: [LifecycleEvent] = []
    switch origin(of: record, fact, among: standing, isNew: known == nil) {
    case .first: events.append(started(fact, isAgain: false))
    case .again: events.append(started(fact, isAgain: true))
    case .renewal:
      let isRecovery = isRecovery(fact)
      // A period that is paid in billing grace begins before the payment.
      let instant =
        isRecovery ? max(fact.purchaseDate, entry.notification?.signedAt ?? fact.signedAt) : fact.purchaseDate
      events.append(event(.renewed, about: fact, occasion: [fact.transactionID], at: instant))
      if isRecovery {
        events.append(event(.recovered, about: fact, occasion: [fact.transactionID], at: instant))
      }
    case .change: events.append(productChange(to: fact, from: predecessor(of: fact, among: standing)))
    case nil: break
    }
    if known == nil { events += productChanges(around: fact, among: standing) }
    return events + refundEvents(fact, after: known, record)
  }

  private func started(_ fact: TransactionFact, isAgain: Bool) -> LifecycleEvent {
    event(
      .subscriptionStarted, about: fact, occasion: [fact.transactionID], at: fact.purchaseDate,
      EventDetails(isResubscription: isAgain))
  }

  // MARK: Purchases

  /// Whether another transaction of the period was known before, or comes with this one and has the smaller id.
  private func isRestored(_ fact: TransactionFact) -> Bool {
    after.transactions.values.contains {
      $0.transactionID != fact.transactionID && $0.isOfSamePeriod(as: fact)
        && (before.transactions[$0.transactionID] != nil || $0.transactionID < fact.transactionID)
    }
  }

  /// The type of the notification decides, if it carries the transaction; otherwise the facts. `nil` where neither
  /// tells: a later fact will.
  private func origin(
    of record: TransactionRecord, _ fact: TransactionFact, among standing: [TransactionFact], isNew: Bool
  ) -> Origin? {
    if fact.kind == .autoRenewable, let told = toldOrigin(of: fact) { return told }
    // A further transaction of a period is the customer's restore on another device.
    guard isNew, !isRestored(fact) else { return nil }
    if fact.transactionID == fact.originalTransactionID { return .first }
    switch fact.kind {
    case .autoRenewable:
      if record.isRenewal { return .renewal }
      guard let predecessor = predecessor(of: fact, among: standing) else { return nil }
      if predecessor.revocationDate != nil || !predecessor.lasts(until: fact) { return .again }
      return isAnotherProduct(fact, predecessor) ? .change : .renewal
    case .nonConsumable:
      // A restored purchase has a transaction of its own; one after a refund is a purchase.
      let isRefunded = after.transactions.values.contains {
        ($0.revocationDate ?? .distantFuture) <= fact.purchaseDate
      }
      return isRefunded ? .again : nil
    default: return .again
    }
  }

  private func toldOrigin(of fact: TransactionFact) -> Origin? {
    guard let notification = entry.notification else { return nil }
    let subtype = notification.subtype.map { Subtype(rawValue: $0) }
    switch (NotificationType(rawValue: notification.type), subtype) {
    case (.subscribed, _), (.offerRedeemed, .initialBuy), (.offerRedeemed, .resubscribe):
      return fact.transactionID == fact.originalTransactionID ? .first : .again
    case (.didRenew, _): return .renewal
    case (.didChangeRenewalPref, .upgrade), (.offerRedeemed, .upgrade): return .change
    default: return nil
    }
  }

  /// Whether it is the charge that ended a billing issue: the App Store says so, or the charge for the period before
  /// had failed.
  private func isRecovery(_ fact: TransactionFact) -> Bool {
    if let notification = entry.notification, notification.type == NotificationType.didRenew.rawValue {
      return notification.subtype == Subtype.billingRecovery.rawValue
    }
    guard let failed = before.renewal, failed.isInBillingRetry, let current = before.current else {
      return false
    }
    return failed.signedAt >= current.purchaseDate && fact.purchaseDate > current.purchaseDate
  }

  // MARK: Products

  private func predecessor(
    of fact: TransactionFact, among standing: [TransactionFact]
  ) -> TransactionFact? {
    standing.last { $0.purchaseDate < fact.purchaseDate && $0.transactionID != fact.transactionID }
  }

  /// The changes of product from the transaction before this one, and to the one after it: either may have arrived
  /// first. Periods with a gap between them tell nothing, because another may be missing.
  private func productChanges(
    around fact: TransactionFact, among standing: [TransactionFact]
  ) -> [LifecycleEvent] {
    guard let place = standing.firstIndex(where: { $0.transactionID == fact.transactionID }) else {
      return []
    }
    var pairs: [(TransactionFact, TransactionFact)] = []
    if place > 0 { pairs.append((standing[place - 1], fact)) }
    if place + 1 < standing.count { pairs.append((fact, standing[place + 1])) }
    return pairs.compactMap { former, next in
      guard next.kind == .autoRenewable, former.revocationDate == nil, isAnotherProduct(next, former),
        former.lasts(until: next) || isRecovery(next)
      else { return nil }
      return productChange(to: next, from: former)
    }
  }

  private func productChange(to fact: TransactionFact, from former: TransactionFact?) -> LifecycleEvent {
    event(
      .productChanged, about: fact, occasion: [fact.transactionID], at: fact.purchaseDate,
      EventDetails(formerProductID: former.map { app.canonicalProductID($0.productID) ?? $0.productID }))
  }

  private func isAnotherProduct(_ fact: TransactionFact, _ other: TransactionFact) -> Bool {
    (app.canonicalProductID(fact.productID) ?? fact.productID)
      != (app.canonicalProductID(other.productID) ?? other.productID)
  }

  // MARK: Refunds

  private func refundEvents(
    _ fact: TransactionFact, after known: TransactionFact?, _ record: TransactionRecord
  ) -> [LifecycleEvent] {
    if let revoked = fact.revocationDate, revoked != known?.revocationDate {
      let isOwnPurchase = fact.ownership == "PURCHASED"
      let details = EventDetails(
        reason: isOwnPurchase ? record.revocation.word : "family_sharing_ended",
        refund: isOwnPurchase ? EventDetails.Refund(revocation: record.revocation, revokedAt: revoked) : nil)
      // A family member paid nothing: the access ends.
      return [
        event(
          isOwnPurchase ? .refunded : .expired, about: fact,
          occasion: [fact.transactionID, revoked.occasion],
          at: revoked, details)
      ]
    }
    if let revoked = known?.revocationDate, fact.revocationDate == nil, fact.ownership == "PURCHASED" {
      return [
        event(
          .refundReversed, about: fact, occasion: [fact.transactionID, revoked.occasion], at: fact.signedAt)
      ]
    }
    return []
  }
}

extension TransactionFact {
  /// Whether its period lasts until the other one begins. Clocks differ by less than a minute.
  fileprivate func lasts(until next: TransactionFact) -> Bool {
    (expiresDate ?? .distantFuture) >= next.purchaseDate.addingTimeInterval(-60)
  }
}

extension Revocation {
  /// The reason of a refund.
  fileprivate var word: String? {
    switch reason {
    case 1: "app_issue"
    case nil: nil
    default: "other"
    }
  }
}

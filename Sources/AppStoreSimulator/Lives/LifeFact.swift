import AppStore
import Foundation
import Synchronization

/// A fact of a life before signing.
public enum LifeFact: Hashable, Sendable {
  /// The state of a transaction at the time of signing.
  case transaction(TransactionInfo)
  /// A renewal info.
  case renewal(RenewalInfo)

  /// The purchase.
  public var originalTransactionID: String {
    switch self {
    case .transaction(let transaction): transaction.originalTransactionId
    case .renewal(let renewal): renewal.originalTransactionId
    }
  }

  /// The time of signing.
  public var signedDate: Date {
    switch self {
    case .transaction(let transaction): transaction.signedDate
    case .renewal(let renewal): renewal.signedDate
    }
  }
}

extension StoreNotification {
  /// The facts about a purchase in the notification.
  public var facts: [LifeFact] {
    (transaction.map { [.transaction($0)] } ?? []) + (renewalInfo.map { [.renewal($0)] } ?? [])
  }
}

/// An event of a life.
public struct LifeEvent: Sendable {
  /// The time.
  public let at: Date
  /// The description.
  public let what: String
  /// The notifications in order.
  public let notifications: [StoreNotification]
  /// The true state of each purchase after the event.
  public let truths: [PurchaseTruth]
}

extension SimulatedStore {
  /// Adds the apps, customers, purchases and notifications of another store of the same environment. Their ids are
  /// random and do not collide.
  mutating func absorb(_ other: SimulatedStore) {
    precondition(other.environment == environment)
    for app in other.apps.values { put(app) }
    transactions.merge(other.transactions) { own, _ in own }
    subscriptions.merge(other.subscriptions) { own, _ in own }
    accounts.merge(other.accounts) { own, _ in own }
    purchases.merge(other.purchases) { own, _ in own }
    externalPurchaseTokens.merge(other.externalPurchaseTokens) { own, _ in own }
    sharing.merge(other.sharing)
    notifications += other.notifications
    lastSigned = max(lastSigned, other.lastSigned)
  }
}

extension SimulatedAppStore {
  /// Adds a life to the store: signs its facts and records its notifications without sending them.
  ///
  /// - Returns: the notifications, oldest first.
  @discardableResult
  public func remember(_ life: RandomLife) throws -> [SignedNotification] {
    let signer = identity.authority.signer
    let notifications = try life.store.notifications.map { try SignedNotification($0, by: signer) }
    state.withLock { state in
      state.stores[life.store.environment]?.absorb(life.store)
      for notification in notifications { state.log.append(notification) }
    }
    return notifications
  }
}

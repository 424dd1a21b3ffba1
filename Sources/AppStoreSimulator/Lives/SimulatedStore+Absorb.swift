import Foundation
import Synchronization

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

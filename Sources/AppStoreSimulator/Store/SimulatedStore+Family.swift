import AppStore
import Foundation

extension SimulatedStore {
  /// Shares a purchase with a family member: a `FAMILY_SHARED` purchase with its own id, dated now, with the
  /// purchaser's expiry, and without `appAccountToken`.
  mutating func share(
    _ id: String, with accountID: String?, at now: Date
  ) throws(StoreRefusal) -> StoreOutcome {
    let subscription = subscriptions[id]
    let original = try transaction(subscription?.transactionIDs.last ?? id)
    let product = try product(original.productId, of: original.bundleId)
    guard product.isFamilyShareable, product.type != .consumable,
      original.inAppOwnershipType == .purchased
    else { throw .notFamilyShareable(product.id) }
    guard truth(of: id, at: now)?.grantsAccess == true else { throw .notActive }

    let download = download(
      of: original.bundleId, by: accountID ?? identifiers.accountID(), at: now.wholeMilliseconds)
    guard download.appTransactionID != original.appTransactionId else {
      throw .alreadyOwned(transactionID: original.transactionId)
    }
    var transaction = newTransaction(of: product, in: original.bundleId, at: now.wholeMilliseconds)
    transaction.inAppOwnershipType = .familyShared
    transaction.appTransactionId = download.appTransactionID
    guard let subscription else {
      let outcome = try buyOnce(transaction, at: now)
      sharing.begin(id, for: outcome.originalTransactionID)
      return outcome
    }
    let earlier = try earlierSubscription(like: transaction, at: now)
    if let earlier { makeSuccessor(&transaction, of: try current(of: earlier)) }
    transaction.expiresDate = original.expiresDate
    record(transaction)
    var member = StoreSubscription(
      originalTransactionID: transaction.originalTransactionId, bundleID: transaction.bundleId,
      transactionIDs: (earlier?.transactionIDs ?? []) + [transaction.transactionId],
      recentStart: transaction.purchaseDate, renewsAs: product.id, autoRenews: true, billing: .settled)
    member.follow(subscription, to: original.transactionId)
    subscriptions[member.originalTransactionID] = member
    sharing.begin(id, for: member.originalTransactionID)
    return try notify(
      .subscribed, earlier == nil ? .initialBuy : .resubscribe, about: transaction.transactionId, at: now)
  }

  /// Applies an event of the purchaser's purchase to the family members' purchases.
  ///
  /// Apple documents that a refund revokes the members' purchases (`REVOKE`) and that a failed charge and its recovery
  /// are sent for each member. Renewals, expiries and changes are assumed to work the same way. A change to a product
  /// that cannot be shared revokes the members' purchases.
  mutating func tellFamily(
    of id: String, _ notification: StoreNotification, at now: Date
  ) throws(StoreRefusal) -> [StoreNotification] {
    var sent: [StoreNotification] = []
    for member in sharing.members(of: id) {
      guard let subscription = subscriptions[id] else {
        if transactions[id]?.revocationDate != nil { sent.append(try revoke(member, at: now).notification) }
        continue
      }
      let current = try current(of: subscription)
      let isShareable = try product(current.productId, of: current.bundleId).isFamilyShareable
      if current.revocationDate != nil || !isShareable {
        sent.append(try revoke(member, at: now).notification)
      } else if notification.type != .refund {
        sent.append(try follow(subscription, current, by: member, notification, at: now))
      }
    }
    return sent
  }

  private mutating func follow(
    _ purchaser: StoreSubscription, _ shared: TransactionInfo, by member: String,
    _ notification: StoreNotification, at now: Date
  ) throws(StoreRefusal) -> StoreNotification {
    var subscription = try self.subscription(member)
    var transaction = try current(of: subscription)
    if subscription.sharedTransactionID != shared.transactionId {
      if notification.subtype == .upgrade {
        transaction.isUpgraded = true
        transactions[transaction.transactionId] = transaction
      }
      let product = try product(shared.productId, of: shared.bundleId)
      var next = newTransaction(of: product, in: shared.bundleId, at: shared.purchaseDate)
      next.transactionReason = shared.transactionReason
      makeSuccessor(&next, of: transaction)
      next.inAppOwnershipType = .familyShared
      next.appTransactionId = transaction.appTransactionId
      transaction = next
      subscription.transactionIDs.append(next.transactionId)
    }
    transaction.expiresDate = shared.expiresDate
    transactions[transaction.transactionId] = transaction
    subscription.follow(purchaser, to: shared.transactionId)
    subscriptions[member] = subscription
    return try notify(
      notification.type, notification.subtype, about: transaction.transactionId, at: now
    ).notification
  }
}

extension StoreSubscription {
  /// Copies the renewal state of the purchaser's subscription.
  fileprivate mutating func follow(_ purchaser: StoreSubscription, to transactionID: String) {
    sharedTransactionID = transactionID
    renewsAs = purchaser.renewsAs
    autoRenews = purchaser.autoRenews
    billing = purchaser.billing
  }
}

/// The links between purchasers' and family members' purchases, by original transaction id.
struct FamilySharing: Sendable {
  private var members: [String: [String]] = [:]
  private var purchasers: [String: String] = [:]

  /// The members' purchases of a purchaser's purchase, in the order of sharing.
  func members(of purchase: String) -> [String] { members[purchase] ?? [] }

  /// The purchaser's purchase of a member's purchase; nil if it has none.
  func purchaser(of member: String) -> String? { purchasers[member] }

  mutating func begin(_ purchase: String, for member: String) {
    end(for: member)
    members[purchase, default: []].append(member)
    purchasers[member] = purchase
  }

  mutating func end(for member: String) {
    guard let purchase = purchasers.removeValue(forKey: member) else { return }
    members[purchase]?.removeAll { $0 == member }
  }

  /// Adds the links of other families.
  mutating func merge(_ other: FamilySharing) {
    members.merge(other.members) { own, _ in own }
    purchasers.merge(other.purchasers) { own, _ in own }
  }
}

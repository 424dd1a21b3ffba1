import AppStore
import Foundation

/// The state of one subscription in the App Store Server API.
struct SubscriptionState: Sendable {
  var group: String
  var status: SubscriptionStatus
  var transaction: TransactionInfo
  var renewalInfo: RenewalInfo
}

extension SimulatedStore {
  /// The current state of a transaction, for signing now; nil for an unknown id.
  mutating func signable(
    _ transactionID: String, of bundleID: String, at now: Date
  ) -> TransactionInfo? {
    guard var transaction = transactions[transactionID], transaction.bundleId == bundleID else { return nil }
    transaction.signedDate = signingDate(at: now)
    return transaction
  }

  /// The transactions of a purchase, oldest first.
  func transactionIDs(of originalTransactionID: String) -> [String] {
    subscriptions[originalTransactionID]?.transactionIDs ?? [originalTransactionID]
  }

  /// The latest transaction of a purchase and the renewal info of a subscription, for signing now.
  mutating func lastWord(on originalTransactionID: String, at now: Date) -> [LifeFact] {
    let signedDate = signingDate(at: now)
    guard let latest = transactionIDs(of: originalTransactionID).last, var transaction = transactions[latest]
    else { return [] }
    transaction.signedDate = signedDate
    guard let subscription = subscriptions[originalTransactionID],
      let renewalInfo = try? renewalInfo(of: subscription, signedDate: signedDate)
    else { return [.transaction(transaction)] }
    return [.transaction(transaction), .renewal(renewalInfo)]
  }

  /// All current and former subscriptions of a customer in an app.
  ///
  /// - Parameter id: any transaction id of the customer, or the app transaction id.
  /// - Returns: nil for an unknown id.
  mutating func subscriptions(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) throws(StoreRefusal) -> [SubscriptionState]? {
    guard let customer = customer(with: id, in: bundleID) else { return nil }
    let signedDate = signingDate(at: now)
    var states: [SubscriptionState] = []
    for subscription in (purchases[customer] ?? []).compactMap({ subscriptions[$0] }) {
      var transaction = try current(of: subscription)
      transaction.signedDate = signedDate
      states.append(
        SubscriptionState(
          group: transaction.subscriptionGroupIdentifier ?? "",
          status: try status(of: subscription, at: signedDate), transaction: transaction,
          renewalInfo: try renewalInfo(of: subscription, signedDate: signedDate)))
    }
    return states
  }

  /// The app transaction id of the customer with a transaction id or app transaction id.
  func customer(with id: String, in bundleID: String) -> String? {
    if let transaction = transactions[id] {
      return transaction.bundleId == bundleID ? transaction.appTransactionId : nil
    }
    guard let first = purchases[id]?.first, transactions[first]?.bundleId == bundleID else { return nil }
    return id
  }
}

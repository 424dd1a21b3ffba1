import Subscriptions

/// Transactions that are stored as part of another purchase than the one they are signed for now.
///
/// After a transfer or migration of an app its purchases can have new original ids (`previousOriginalTransactionId`). A
/// stored transaction keeps its purchase, so that its refund ends the access that it granted. New transactions under the
/// new id are a purchase of their own.
struct TransactionsElsewhere: Error {
  /// The original id of each stored transaction.
  var homes: [String: String]
}

extension LedgerEntry {
  /// The same entry, about the purchase that its transactions are stored under.
  func reassigned(_ homes: [String: String]) -> LedgerEntry {
    guard let home = transactions.lazy.compactMap({ homes[$0.fact.transactionID] }).first,
      home != originalTransactionID
    else { return self }
    var moved = self
    moved.originalTransactionID = home
    for index in moved.transactions.indices { moved.transactions[index].fact.originalTransactionID = home }
    for index in moved.renewals.indices { moved.renewals[index].fact.originalTransactionID = home }
    return moved
  }
}

import Subscriptions

/// Transactions that are known as part of another purchase than the one they are signed for now.
///
/// An app that is transferred or migrated can get its customers' purchases under new original ids
/// (`previousOriginalTransactionId`). What is said of a transaction then is said of the one that we know: its refund must
/// end what it opened. New transactions under the new id are a purchase of their own.
struct TransactionsElsewhere: Error {
  /// The original id that each known transaction is kept under.
  var homes: [String: String]
}

extension LedgerEntry {
  /// The same entry, about the purchase that its transactions are known as part of.
  func movedHome(_ homes: [String: String]) -> LedgerEntry {
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

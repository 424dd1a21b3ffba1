import Foundation

/// The signed facts about one `originalTransactionID`: the only input of the fold.
///
/// Adding facts is commutative and idempotent: any order and any repetition give the same value.
public struct SubscriptionFacts: Sendable, Hashable {
  /// The latest fact of each transaction by `transactionID`, with the latest account token.
  public private(set) var transactions: [String: TransactionFact]
  /// The latest renewal info.
  public private(set) var renewal: RenewalFact?

  /// Facts from stored ones.
  public init(transactions: [TransactionFact] = [], renewal: RenewalFact? = nil) {
    self.transactions = [:]
    for transaction in transactions { add(transaction) }
    self.renewal = renewal
  }

  /// Adds a signed transaction.
  ///
  /// - Returns: whether it changed the facts. An older fact does if its account token is newer.
  @discardableResult
  public mutating func add(_ fact: TransactionFact) -> Bool {
    guard let known = transactions[fact.transactionID] else {
      transactions[fact.transactionID] = fact
      return true
    }
    let merged = fact.merged(with: known)
    if merged == known { return false }
    transactions[fact.transactionID] = merged
    return true
  }

  /// Adds a signed renewal info.
  ///
  /// - Returns: whether it changed the facts; an older or repeated one does not.
  @discardableResult
  public mutating func add(_ fact: RenewalFact) -> Bool {
    if let known = renewal, !fact.supersedes(known) { return false }
    renewal = fact
    return true
  }
}

import FoundationEssentials

/// Everything signed that is known of one `originalTransactionID`: the only input of the fold.
///
/// A set in the mathematical sense: learning the same facts in any order, any number of times, gives
/// the same value.
public struct SubscriptionFacts: Sendable, Hashable {
  /// The latest word on each transaction, by `transactionID`, with the latest account token.
  public private(set) var transactions: [String: TransactionFact]
  /// The latest renewal info.
  public private(set) var renewal: RenewalFact?

  /// Starts from what is already kept (or from nothing).
  public init(transactions: [TransactionFact] = [], renewal: RenewalFact? = nil) {
    self.transactions = [:]
    for transaction in transactions { learn(transaction) }
    self.renewal = renewal
  }

  /// Takes in a signed transaction.
  /// - Returns: whether it was news. A repeated fact is not; an older one is where its account token is.
  @discardableResult
  public mutating func learn(_ fact: TransactionFact) -> Bool {
    guard let known = transactions[fact.transactionID] else {
      transactions[fact.transactionID] = fact
      return true
    }
    let merged = fact.merged(with: known)
    if merged == known { return false }
    transactions[fact.transactionID] = merged
    return true
  }

  /// Takes in a signed renewal info.
  /// - Returns: whether it was news; an older or repeated fact is not.
  @discardableResult
  public mutating func learn(_ fact: RenewalFact) -> Bool {
    if let known = renewal, !fact.supersedes(known) { return false }
    renewal = fact
    return true
  }

  /// The latest purchase by `purchaseDate`: what it replaced never comes back.
  ///
  /// Purchases of the same instant are an upgrade and what it upgraded; Apple marks the latter.
  ///
  /// A product that is bought for good and restored has several transactions, and a refund is signed on one of them.
  /// So a revocation ends every purchase from before it. A purchase after it is another one: the App Store sells the
  /// product again after a refund, under the same original id or a new one.
  public var current: TransactionFact? {
    guard var current = transactions.values.max(by: { $0.isReplaced(by: $1) }) else { return nil }
    if current.kind == .nonConsumable, current.revocationDate == nil {
      let purchaseDate = current.purchaseDate
      current.revocationDate = transactions.values.lazy.compactMap(\.revocationDate).filter {
        $0 > purchaseDate
      }.min()
    }
    return current
  }

  /// The period that reaches up to the start of this one and stands; `nil` where there is none.
  func paidUntilStart(of current: TransactionFact) -> TransactionFact? {
    transactions.values
      .filter { before in
        guard let expires = before.expiresDate else { return false }
        return before.purchaseDate < current.purchaseDate && expires >= current.purchaseDate
          && before.revocationDate == nil && !before.isUpgraded
      }
      .max { $0.isReplaced(by: $1) }
  }

  /// The `appAccountToken` that decides: that of the latest purchase that carries one, and of the tokens of that
  /// purchase the one that was signed last. A later purchase or signature without a token (made outside of the app,
  /// say) says nothing about whose it is, and an earlier purchase that is signed again takes nothing back.
  public var customerToken: UUID? {
    transactions.values.filter { $0.appAccountToken != nil }.max { $0.isReplaced(by: $1) }?.appAccountToken
  }
}

extension TransactionFact {
  fileprivate func isReplaced(by other: TransactionFact) -> Bool {
    if purchaseDate != other.purchaseDate { return purchaseDate < other.purchaseDate }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    // Apple's identifiers grow: of two with the same number of digits the larger is the later.
    if transactionID.utf8.count != other.transactionID.utf8.count {
      return transactionID.utf8.count < other.transactionID.utf8.count
    }
    return transactionID < other.transactionID
  }
}

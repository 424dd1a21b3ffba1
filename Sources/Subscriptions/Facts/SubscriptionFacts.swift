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

  /// The latest purchase: what it replaced never comes back.
  ///
  /// The latest by `purchaseDate`, unless an upgrade overtook it; see ``isOvertaken(_:)``. Purchases of the same instant
  /// are an upgrade and what it upgraded; Apple marks the latter.
  ///
  /// A product that is bought for good and restored has several transactions, and a refund is signed on one of them.
  /// So a revocation ends every purchase from before it. A purchase after it is another one: the App Store sells the
  /// product again after a refund, under the same original id or a new one.
  public var current: TransactionFact? {
    guard var current = latest(of: transactions.values) else { return nil }
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
    latest(
      of: transactions.values.filter { before in
        guard let expires = before.expiresDate else { return false }
        return before.purchaseDate < current.purchaseDate && expires >= current.purchaseDate
          && before.revocationDate == nil && !before.isUpgraded
      })
  }

  /// The `appAccountToken` that decides: that of the latest purchase that carries one, and of the tokens of that
  /// purchase the one that was signed last. A later purchase or signature without a token (made outside of the app,
  /// say) says nothing about whose it is, and an earlier purchase that is signed again takes nothing back.
  public var customerToken: UUID? {
    latest(of: transactions.values.filter { $0.appAccountToken != nil })?.appAccountToken
  }

  /// The latest of these purchases that stands; where all are overtaken, the latest.
  private func latest(of purchases: some Collection<TransactionFact>) -> TransactionFact? {
    let overtaken = overtaken
    let standing = purchases.lazy.filter { !overtaken.contains($0.transactionID) }
    return standing.max { $0.isReplaced(by: $1) } ?? purchases.max { $0.isReplaced(by: $1) }
  }

  /// The ids of renewals that another purchase replaced before they began.
  ///
  /// The App Store charges a renewal up to a day ahead and dates it at its beginning. The customer may buy an upgrade in
  /// between, which takes effect at once: its `purchaseDate` is the earlier one, although it was bought later. The same
  /// happens where the renewal is refunded and the customer subscribes again.
  ///
  /// A purchase is overtaken by earlier-dated ones alone, so one pass in the order of dates decides about each once.
  private var overtaken: Set<String> {
    guard transactions.count > 1 else { return [] }
    let ordered = transactions.values.sorted { $0.isReplaced(by: $1) }
    // For each end of a period, when the first of the periods with that end was bought.
    var boughtFirst: [Date: Date] = [:]
    for fact in ordered {
      if let end = fact.expiresDate, boughtFirst[end] == nil { boughtFirst[end] = fact.purchaseDate }
    }
    var overtaken: Set<String> = []
    for (place, renewal) in ordered.enumerated() {
      let earliest = renewal.purchaseDate - Self.chargedAhead
      let isOvertaken = ordered[..<place].reversed().prefix { $0.purchaseDate >= earliest }.contains {
        $0.overtakes(renewal, afterPeriodOf: boughtFirst[renewal.purchaseDate])
          && !overtaken.contains($0.transactionID)
      }
      if isOvertaken { overtaken.insert(renewal.transactionID) }
    }
    return overtaken
  }
}

extension TransactionFact {
  /// Whether this purchase was made after `renewal` had been charged, and runs on where that begins.
  ///
  /// Apple marks what was upgraded, but the mark may be lost. So each of these tells that the renewal came first:
  /// a signature or a revocation of it from before this purchase; the mark, unless this purchase has it too, since two
  /// marks say nothing about their order; or that it begins where a period ends which this purchase cut short.
  ///
  /// - Parameter bought: when the period was bought that ends where `renewal` begins; `nil` without such a period.
  fileprivate func overtakes(_ renewal: TransactionFact, afterPeriodOf bought: Date?) -> Bool {
    guard let expires = expiresDate, purchaseDate < renewal.purchaseDate, renewal.purchaseDate < expires
    else {
      return false
    }
    if renewal.isUpgraded, !isUpgraded { return true }
    let begins = renewal.purchaseDate - SubscriptionFacts.clockDifference
    let knownFrom = min(renewal.signedAt, renewal.revocationDate ?? .distantFuture)
    if knownFrom <= purchaseDate, knownFrom < begins { return true }
    guard purchaseDate < begins, let bought else { return false }
    return bought < purchaseDate
  }

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

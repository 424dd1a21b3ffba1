import Foundation
import Ledger
import Subscriptions

/// The claims of a run with their decisions.
struct ClaimBook: Sendable {
  private(set) var claims: [LegacyClaim.Key: LegacyClaim] = [:]
  private(set) var decisions: [LegacyClaim.Key: DecidedClaim] = [:]
  /// Verdicts of earlier runs about which the App Store is asked again.
  var former: [LegacyClaim.Key: DecidedClaim] = [:]
  /// How many of them have their former verdict still, because the App Store did not answer.
  private(set) var notAskedAgain = 0
  /// The users whose client writes premium, although receiptd has decided that they have no access.
  var denied: [UUID] = []
  /// The users whose client wrote premium, without a transaction id, after the first adoption, and who get no award.
  var withheld: [UUID] = []
  /// The users with a premium row that waits for receiptd's status: what it says is no claim.
  var waiting: [UUID] = []

  /// Adds a claim; one that is there already stays.
  mutating func add(_ claim: LegacyClaim) {
    if claims[claim.key] == nil { claims[claim.key] = claim }
  }

  /// Notes a decision. Without an answer the verdict of an earlier run stays.
  mutating func decide(_ key: LegacyClaim.Key, _ decided: DecidedClaim) {
    if decided.verdict == .failed, let former = former[key] {
      decisions[key] = former
      notAskedAgain += 1
    } else {
      decisions[key] = decided
    }
  }

  /// The claims without a decision, in a fixed order.
  var open: [LegacyClaim] {
    claims.values.filter { decisions[$0.key] == nil }.sorted {
      ($0.key.transactionID, $0.key.customer.id) < ($1.key.transactionID, $1.key.customer.id)
    }
  }

  /// The transactions that several customers claim.
  var contestedTransactions: Set<String> {
    let byTransaction = Dictionary(grouping: claims.keys.lazy.filter(isContender), by: \.transactionID)
    return Set(byTransaction.lazy.filter { $0.value.count > 1 }.map(\.key))
  }

  private func isContender(_ key: LegacyClaim.Key) -> Bool {
    !key.transactionID.isEmpty && decisions[key]?.verdict != .unknownCustomer
  }

  /// The customers whose claims name these transactions.
  func claimants(of transactions: Set<String>) -> [String: Set<Customer>] {
    claims.keys.reduce(into: [:]) { customers, key in
      guard transactions.contains(key.transactionID), isContender(key) else { return }
      customers[key.transactionID, default: []].insert(key.customer)
    }
  }

  /// The claims of a table to a purchase that the App Store does not know, or that belongs to another customer.
  func falseClaims(in source: LegacyClaim.Source) -> [LegacyClaim.Key] {
    decisions.filter { key, decided in
      claims[key]?.source == source && (decided.verdict == .unknown || decided.verdict == .anotherCustomer)
    }.keys.sorted { ($0.customer.id, $0.transactionID) < ($1.customer.id, $1.transactionID) }
  }
}

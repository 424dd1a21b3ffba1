import AppStore
import Foundation

/// A transaction in a customer's history.
struct HistoryRecord: Sendable {
  /// The time of the last change, by which the App Store sorts.
  var modified: Date
  /// The current state of the transaction, for signing now.
  var transaction: TransactionInfo
}

extension SimulatedStore {
  /// All transactions of a customer in an app, ordered by modification.
  ///
  /// - Parameter id: any transaction id of the customer, or the app transaction id.
  /// - Returns: nil for an unknown id.
  mutating func history(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) -> [HistoryRecord]? {
    guard let customer = customer(with: id, in: bundleID) else { return nil }
    let signedDate = signingDate(at: now)
    return (purchases[customer] ?? [])
      .flatMap { subscriptions[$0]?.transactionIDs ?? [$0] }
      .compactMap { transactions[$0] }
      .map { transaction in
        // A stored transaction has the signed date of its last change.
        let modified = max(transaction.signedDate, transaction.revocationDate ?? .distantPast)
        var record = HistoryRecord(modified: modified.wholeMilliseconds, transaction: transaction)
        record.transaction.signedDate = signedDate
        return record
      }
      .sorted { ($0.modified, $0.transaction.transactionId) < ($1.modified, $1.transaction.transactionId) }
  }
}

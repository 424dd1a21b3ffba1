import AppStore
import FoundationEssentials

/// A transaction in a customer's history.
struct HistoryRecord: Sendable {
  /// When something last happened to it, which is what the App Store sorts by.
  var modified: Date
  /// The transaction as it stands, to be signed now.
  var transaction: TransactionInfo
}

extension SimulatedStore {
  /// Every transaction of a customer in an app, the one that was last modified last.
  ///
  /// - Parameter id: any transaction id of the customer, or their app transaction id; nil is returned if
  ///   the app knows neither.
  mutating func history(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) -> [HistoryRecord]? {
    guard let customer = customer(with: id, in: bundleID) else { return nil }
    let signedDate = signingDate(at: now)
    return (purchases[customer] ?? [])
      .flatMap { subscriptions[$0]?.transactionIDs ?? [$0] }
      .compactMap { transactions[$0] }
      .map { transaction in
        // What the store keeps was signed when something last happened.
        let modified = max(transaction.signedDate, transaction.revocationDate ?? .distantPast)
        var record = HistoryRecord(modified: modified.wholeMilliseconds, transaction: transaction)
        record.transaction.signedDate = signedDate
        return record
      }
      .sorted { ($0.modified, $0.transaction.transactionId) < ($1.modified, $1.transaction.transactionId) }
  }

  /// The app transaction of a customer; nil if the app does not know the id.
  mutating func appTransaction(
    ofCustomerWith id: String, in bundleID: String, at now: Date
  ) throws(StoreRefusal) -> AppTransaction? {
    guard let customer = customer(with: id, in: bundleID),
      let account = accounts.first(where: { $0.value.downloads[bundleID]?.appTransactionID == customer })?.key
    else { return nil }
    return try appTransaction(of: bundleID, accountID: account, at: now)
  }

  /// The original transaction ids of everything that a transaction's customer bought in an app; empty if
  /// the app does not know the id.
  func purchases(ofCustomerWith id: String, in bundleID: String) -> Set<String> {
    Set(customer(with: id, in: bundleID).flatMap { purchases[$0] } ?? [])
  }
}

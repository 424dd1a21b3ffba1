import Foundation
import Postgres
import Subscriptions

extension SupportDesk {
  /// Transfers a purchase to another customer of the same app.
  ///
  /// The previous owner's client cannot claim it back, whatever the app's transfer policy. Only support can transfer it
  /// again, or the App Store, by signing a new `appAccountToken`.
  ///
  /// - Throws: ``SupportRefusal``, ``ServiceError``; errors of the database.
  public func transfer(
    _ originalTransactionID: String, to customer: String, by author: SupportAuthor
  ) async throws -> TransferResult {
    guard let row = try await pool.query(SubscriptionRows.select([originalTransactionID])).first else {
      throw try await unknownPurchase(originalTransactionID)
    }
    let app = try app(named: SubscriptionRows.decode(row).bundleID)
    let customer = try app.customer(named: customer)
    var entry = LedgerEntry(app: app, originalTransactionID: originalTransactionID, instant: clock.now())
    entry.transfer = SupportTransfer(customer: customer, author: author)
    let receipt = try await ledger.record(entry)
    guard let stored = receipt.subscription else { throw try await unknownPurchase(originalTransactionID) }
    return TransferResult(
      originalTransactionID: originalTransactionID, bundleID: app.bundleID,
      from: receipt.previous?.owner?.customer.id, to: customer.id,
      isChanged: receipt.previous?.owner != stored.owner || receipt.previous?.customers != stored.customers)
  }

  /// The id may be that of a renewal instead of the original transaction.
  func unknownPurchase(_ id: String) async throws -> SupportRefusal {
    let rows = try await pool.query(
      "SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id)")
    if let original = try rows.first?.decode("original_transaction_id", as: String.self), original != id {
      return .notFound("\(id) is a transaction of the purchase \(original): use that id.")
    }
    return .notFound("There is no purchase with the originalTransactionID \(id).")
  }
}

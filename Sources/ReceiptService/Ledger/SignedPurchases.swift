import AppStore
import Foundation
import Logging
import Subscriptions

/// Makes ledger entries of the signed data in responses of the App Store Server API.
struct SignedPurchases: Sendable {
  let verifier: SignedDataVerifier
  let logger: Logger

  /// The entry of a subscription's latest transaction and renewal info; `nil` if the transaction does not verify.
  func entry(of item: LastTransactionsItem, in app: App, at instant: Date) -> LedgerEntry? {
    guard let jws = item.signedTransactionInfo, let transaction = transaction(jws, in: app) else {
      return nil
    }
    var entry = LedgerEntry(
      app: app, originalTransactionID: transaction.fact.originalTransactionID,
      transactions: [transaction], instant: instant)
    if let jws = item.signedRenewalInfo, let signed = try? verifier.renewalInfo(jws),
      (try? app.identity.check(signed.payload)) != nil, let record = try? RenewalRecord(signed),
      record.fact.originalTransactionID == entry.originalTransactionID
    {
      entry.renewals = [record]
    }
    return entry
  }

  /// The record of a signed transaction; `nil` if it does not verify.
  func transaction(_ jws: String, in app: App) -> TransactionRecord? {
    do {
      let signed = try verifier.transaction(jws)
      try app.identity.check(signed.payload)
      return try TransactionRecord(signed)
    } catch {
      logger.error(
        "signed data in a response of the App Store does not verify", metadata: ["reason": "\(error)"])
      return nil
    }
  }
}

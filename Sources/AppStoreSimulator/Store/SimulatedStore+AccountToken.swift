import AppStore
import Foundation

extension SimulatedStore {
  /// Sets the app's own customer id on a purchase, as Set App Account Token does. All later payloads carry it,
  /// including renewals.
  mutating func setAppAccountToken(
    _ token: UUID, of transactionID: String, in bundleID: String, at now: Date
  ) throws(StoreRefusal) {
    guard let transaction = transactions[transactionID], transaction.bundleId == bundleID else {
      throw .serverAPI(.originalTransactionIdNotFound)
    }
    guard transaction.originalTransactionId == transactionID else {
      throw .serverAPI(.transactionIdNotOriginalTransactionId)
    }
    // The token belongs to the purchaser.
    guard transaction.inAppOwnershipType != .familyShared else {
      throw .serverAPI(.familyTransactionNotSupported)
    }
    let signedDate = signingDate(at: now)
    for id in transactionIDs(of: transactionID) {
      transactions[id]?.appAccountToken = token
      transactions[id]?.signedDate = signedDate
    }
  }
}

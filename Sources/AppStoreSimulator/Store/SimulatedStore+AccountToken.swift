import AppStore
import Foundation

/// The reasons why the App Store Server API does not set an app account token.
enum AccountTokenRefusal: Error, Hashable, Sendable {
  /// The app has no such transaction.
  case notFound
  /// A family member shares the transaction; the token belongs to the purchaser.
  case familyShared
  /// The transaction is a renewal or another later one.
  case notOriginal
}

extension SimulatedStore {
  /// Sets the app's own customer id on a purchase. All later payloads carry it, including renewals.
  mutating func setAppAccountToken(
    _ token: UUID, of transactionID: String, in bundleID: String, at now: Date
  ) -> Result<Void, AccountTokenRefusal> {
    guard let transaction = transactions[transactionID], transaction.bundleId == bundleID else {
      return .failure(.notFound)
    }
    guard transaction.originalTransactionId == transactionID else { return .failure(.notOriginal) }
    guard transaction.inAppOwnershipType != .familyShared else { return .failure(.familyShared) }
    let signedDate = signingDate(at: now)
    for id in subscriptions[transactionID]?.transactionIDs ?? [transactionID] {
      transactions[id]?.appAccountToken = token
      transactions[id]?.signedDate = signedDate
    }
    return .success(())
  }
}

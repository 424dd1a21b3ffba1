import AppStore
import FoundationEssentials

/// Why the App Store Server API does not set an app account token.
enum AccountTokenRefusal: Error, Hashable, Sendable {
  /// The app has no such transaction.
  case notFound
  /// It was shared by the family: the app's account is that of the one who bought it.
  case familyShared
  /// It is a renewal or another later transaction.
  case notOriginal
}

extension SimulatedStore {
  /// Sets the app's own id of its customer on a purchase. What is signed from now on carries it, renewals
  /// included.
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

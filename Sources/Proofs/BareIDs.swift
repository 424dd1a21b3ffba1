import Deliveries
import HTTP
import Ledger
import Postgres
import Requests
import Subscriptions

/// Purchases that a client names by a transaction id alone, which proves no possession: the App Store is asked about
/// the id, within limits for ids that may be invented.
struct BareIDs: Sendable {
  let store: StoreLookup
  let pool: PostgresPool
  let rateLimits: ClientRateLimits

  /// The purchase of a transaction id, in its present state in the App Store.
  /// - Throws: ``Problem``: `transaction_not_found`, `store_unavailable`, `wrong_environment`, `rate_limited`; errors
  ///   of the database.
  func purchase(_ transactionID: String, of app: App, for request: Request) async throws -> ProvenPurchase {
    try rateLimits.checkGuesses(of: request)
    let known = try await pool.query(TransactionRows.isKnown(transactionID))
    let isKnown = try known.first?.decode("is_known", as: Bool.self) ?? false
    if !isKnown { try rateLimits.beginGuess(of: request) }
    defer { if !isKnown { rateLimits.endGuess(of: request) } }
    do throws(Problem) {
      return try await store.purchase(transactionID: transactionID, isKnown: isKnown, of: app)
    } catch {
      // Either may be an invented id.
      if error.code == ServiceError.transactionNotFound.code || error == StoreLookup.answeredBySandboxAlone {
        rateLimits.noteGuess(of: request)
      }
      throw error
    }
  }

  /// The strength of a claim, less if other users claim a purchase that the claimant only names.
  func strength(
    _ strength: ClaimStrength, of purchase: ProvenPurchase, for claimant: Customer
  ) async throws -> ClaimStrength {
    guard strength == .name || strength == .oldBuild,
      try await pool.isClaimedByAnother(purchase, than: claimant)
    else { return strength }
    return .nothing
  }
}

import Foundation
import HTTP
import Postgres
import Subscriptions

/// Verifies claims with the App Store, and binds a purchase to its claimant if it has no owner.
///
/// A transaction id proves no possession, so a claim never moves a purchase, whatever the app's transfer policy.
struct ClaimCheck: Sendable {
  /// Waits longer than a request, because jobs and commands can.
  let store: StoreLookup
  let ledger: LedgerWriter
  let pool: PostgresPool
  let clock: ServiceClock

  /// Decides one claim.
  /// - Parameters:
  ///   - isContested: whether other customers claim the purchase too: then only Apple's `appAccountToken` binds it.
  ///   - apps: the apps whose purchase it can be, the most likely one first.
  ///   - isDryRun: whether to record nothing.
  /// - Throws: errors of the database.
  func decide(
    _ transactionID: String, for claimant: Customer, isContested: Bool, in apps: [App], isDryRun: Bool = false
  ) async throws -> DecidedClaim {
    let instant = clock.now()
    if let stored = try await stored(transactionID), stored.owner != nil {
      return DecidedClaim(ClaimVerdict(stored, for: claimant, at: instant))
    }
    var reason: String?
    for app in apps {
      do throws(Problem) {
        // The ids may be invented, and the server that runs beside needs a part of Apple's rate.
        let purchase = try await store.purchase(transactionID: transactionID, isKnown: false, of: app)
        return try await decide(purchase, for: claimant, isContested: isContested, isDryRun: isDryRun)
      } catch {
        switch error.code {
        case ServiceError.transactionNotFound.code: break
        case ServiceError.wrongApp("").code, ServiceError.wrongEnvironment("").code: reason = error.detail
        default: return DecidedClaim(.failed, error.detail)
        }
      }
    }
    return DecidedClaim(.unknown, reason)
  }

  /// Decides a claim to a purchase that Apple has signed.
  func decide(
    _ purchase: ProvenPurchase, for claimant: Customer, isContested: Bool, isDryRun: Bool
  ) async throws(Problem) -> DecidedClaim {
    do {
      var entry = LedgerEntry(purchase, claimant: isContested ? nil : claimant, instant: clock.now())
      entry.isUnprovenClaim = true
      entry.isValidation = false
      if isDryRun { return try await foresee(entry, for: claimant) }
      let receipt = try await ledger.record(entry)
      if receipt.isContradiction {
        return DecidedClaim(.unknown, "The purchase is known as one of another app or environment.")
      }
      guard let stored = receipt.subscription else {
        return DecidedClaim(.failed, "The purchase has no transaction.")
      }
      return DecidedClaim(ClaimVerdict(stored, for: claimant, at: entry.instant))
    } catch let problem as Problem {
      throw problem
    } catch {
      throw ServiceError.databaseUnavailable
    }
  }

  /// The verdict on an entry, without recording it.
  private func foresee(_ entry: LedgerEntry, for claimant: Customer) async throws -> DecidedClaim {
    var state = LedgerState()
    if let id = entry.originalTransactionID, let stored = try await stored(id) { state.load(stored) }
    guard let stored = state.record(entry).subscription else {
      return DecidedClaim(.failed, "The purchase has no transaction.")
    }
    return DecidedClaim(ClaimVerdict(stored, for: claimant, at: entry.instant))
  }

  private func stored(_ originalTransactionID: String) async throws -> StoredSubscription? {
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline([
        SubscriptionRows.select([originalTransactionID]), HolderRows.select([originalTransactionID]),
      ])
    }
    guard var stored = try answers[0].first.map(SubscriptionRows.decode) else { return nil }
    stored.holders = try answers[1].map { try HolderRows.decode($0).holder }
    return stored
  }
}

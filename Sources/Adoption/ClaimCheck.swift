import Customers
import Foundation
import HTTP
import Ledger
import Postgres
import Proofs
import Requests
import Subscriptions
import Work

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
    switch try await resolve(transactionID, for: claimant, in: apps) {
    case .decided(let decided): return decided
    case .purchase(let purchase):
      var isContested = isContested
      if !isContested { isContested = try await pool.isClaimedByAnother(purchase, than: claimant) }
      return await decide(purchase, for: claimant, binding: isContested ? nil : claimant, isDryRun: isDryRun)
    }
  }

  /// The purchase that a claim names, or the decision if it needs none.
  enum Resolution: Sendable {
    case decided(DecidedClaim)
    case purchase(ProvenPurchase)
  }

  /// Looks up the purchase that a claim names, unless the database has its owner. Records nothing.
  /// - Parameter asksAgain: whether to look up a purchase with an owner, too, if it gives no access.
  /// - Throws: errors of the database.
  func resolve(
    _ transactionID: String, for claimant: Customer, in apps: [App], asksAgain: Bool = false
  ) async throws -> Resolution {
    var known: DecidedClaim?
    if let stored = try await stored(transactionID), stored.owner != nil {
      let decided = DecidedClaim(stored, for: claimant, at: clock.now())
      guard asksAgain, decided.verdict.mayHaveChanged else { return .decided(decided) }
      known = decided
    }
    var (reason, failure): (String?, String?)
    for app in apps {
      do throws(Problem) {
        // The ids may be invented, and the server that runs beside needs a part of Apple's rate.
        return .purchase(try await store.purchase(transactionID: transactionID, isKnown: false, of: app))
      } catch {
        switch error.code {
        case ServiceError.transactionNotFound.code: break
        case ServiceError.wrongApp("").code, ServiceError.wrongEnvironment("").code: reason = error.detail
        default: failure = failure ?? error.detail
        }
      }
    }
    if let failure { return .decided(DecidedClaim(.failed, failure)) }
    return .decided(known ?? DecidedClaim(.unknown, reason))
  }

  /// Decides a claim to a purchase that Apple has signed.
  /// - Parameter winner: the customer whose claim binds the purchase. `nil`: several customers have the same claim, so
  ///   only Apple's `appAccountToken` binds it.
  func decide(
    _ purchase: ProvenPurchase, for claimant: Customer, binding winner: Customer?, isDryRun: Bool
  ) async -> DecidedClaim {
    do {
      let entry = LedgerEntry(
        purchase, because: .adoption(winner.map { Claim(by: $0, .name) }), instant: clock.now())
      if isDryRun { return try await foresee(entry, for: claimant) }
      let receipt = try await ledger.record(entry)
      if receipt.isContradiction {
        return DecidedClaim(.unknown, "The purchase is known as one of another app or environment.")
      }
      guard let stored = receipt.subscription else {
        return DecidedClaim(.failed, "The purchase has no transaction.")
      }
      return DecidedClaim(stored, for: claimant, at: entry.instant)
    } catch let problem as Problem {
      return DecidedClaim(.failed, problem.detail)
    } catch {
      return DecidedClaim(.failed, ServiceError.databaseUnavailable.detail)
    }
  }

  /// The verdict on an entry, without recording it.
  private func foresee(_ entry: LedgerEntry, for claimant: Customer) async throws -> DecidedClaim {
    var known: StoredSubscription?
    if let id = entry.originalTransactionID { known = try await stored(id) }
    guard let stored = entry.foreseen(after: known).subscription else {
      return DecidedClaim(.failed, "The purchase has no transaction.")
    }
    return DecidedClaim(stored, for: claimant, at: entry.instant)
  }

  /// Whether more than a transaction's id decided the owner of a purchase.
  func isProven(_ originalTransactionID: String) async throws -> Bool {
    guard let owner = try await stored(originalTransactionID)?.owner else { return false }
    return owner.reason != .unprovenClaim
  }

  private func stored(_ originalTransactionID: String) async throws -> StoredSubscription? {
    try await stored([originalTransactionID])[originalTransactionID]
  }

  /// The rows of these purchases, with the devices that share them.
  func stored(_ originalTransactionIDs: [String]) async throws -> [String: StoredSubscription] {
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline([
        SubscriptionRows.select(originalTransactionIDs), HolderRows.select(originalTransactionIDs),
      ])
    }
    var purchases: [String: StoredSubscription] = [:]
    for row in answers[0] {
      let stored = try SubscriptionRows.decode(row)
      purchases[stored.originalTransactionID] = stored
    }
    for row in answers[1] {
      let (id, holder) = try HolderRows.decode(row)
      purchases[id]?.holders.append(holder)
    }
    return purchases
  }
}

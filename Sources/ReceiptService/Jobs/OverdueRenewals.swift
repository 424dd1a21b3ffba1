import AppStore
import Customers
import Deliveries
import Foundation
import Ledger
import Logging
import Postgres
import Requests
import Subscriptions
import Work

/// Requests the status of subscriptions that should have renewed or ended, and for which no notification came.
struct OverdueRenewals: Sendable {
  let pool: PostgresPool
  let signed: SignedPurchases
  let ledger: LedgerWriter
  let clock: ServiceClock
  let logger: Logger

  /// For how long other servers leave out a subscription that this server asks about.
  private static let lease: TimeInterval = 600
  /// The most pages (of 20 transactions) to read of a purchase's history. Older transactions are not needed.
  private static let maximumHistoryPages = 20

  /// Requests the status of every overdue subscription, each at most once a day.
  ///
  /// A failure that concerns one subscription does not stop the others.
  func ask(
    _ api: AppStoreServerAPI, _ app: App, _ environment: Environment, into report: inout ReconcileReport
  ) async throws {
    let run = clock.now()
    while let id = try await next(app, environment, run: run) {
      report.statusesAsked += 1
      do {
        try await ask(api, about: id, of: app, environment, into: &report)
        _ = try await pool.query(ReconcileRows.markAsked(id, at: clock.now()))
      } catch let error as AppStoreServerError where error.retryDecision == .skip {
        logger.warning(
          "the App Store has no status of a subscription",
          metadata: ["purchase": "\(id)", "reason": "\(error.reason)"])
        _ = try await pool.query(ReconcileRows.markAsked(id, at: clock.now()))
      } catch let error as AppStoreServerError where error.retryDecision == .stop {
        throw error
      } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
        report.statusesFailed += 1
        logger.error(
          "the status of an overdue subscription could not be processed",
          metadata: ["purchase": "\(id)", "reason": "\(error)"])
      }
    }
  }

  private func next(_ app: App, _ environment: Environment, run: Date) async throws -> String? {
    try await pool.query(
      ReconcileRows.claimOverdue(
        bundleID: app.bundleID, environment: environment.rawValue, run: run, at: clock.now(),
        lease: Self.lease)
    ).first?.decode("original_transaction_id", as: String.self)
  }

  private func ask(
    _ api: AppStoreServerAPI, about id: String, of app: App, _ environment: Environment,
    into report: inout ReconcileReport
  ) async throws {
    let answer = try await api.subscriptionStatuses(anyTransactionID: id, in: environment)
    for item in (answer.data ?? []).flatMap({ $0.lastTransactions ?? [] }) {
      guard var entry = signed.entry(of: item, in: app, to: .overdueRenewal, at: clock.now()) else {
        continue
      }
      entry.transactions += try await earlier(api, than: entry, app, environment)
      report.addRepair(try await ledger.record(entry), cause: "status", at: entry.instant)
    }
  }

  /// The periods between the latest known one and the one of the status, from the transaction history.
  ///
  /// They are written together with the latest one. If that were written alone, the next run would find nothing new and
  /// never read the others.
  private func earlier(
    _ api: AppStoreServerAPI, than entry: LedgerEntry, _ app: App, _ environment: Environment
  ) async throws -> [TransactionRecord] {
    guard let latest = entry.transactions.first?.fact.transactionID, let id = entry.originalTransactionID,
      try await pool.query(ReconcileRows.known(transactionID: latest)).isEmpty
    else { return [] }
    var transactions: [TransactionRecord] = []
    var seen: Set = [latest]
    var revision: String?
    for _ in 0..<Self.maximumHistoryPages {
      let page: HistoryResponse
      do throws(AppStoreServerError) {
        page = try await api.transactionHistory(
          anyTransactionID: id, revision: revision, in: environment)
      } catch {
        // The latest period alone decides the access, so a purchase without a history is written too.
        guard error.retryDecision == .skip else { throw error }
        break
      }
      transactions += (page.signedTransactions ?? []).compactMap { signed.transaction($0, in: app) }
        .filter { $0.fact.originalTransactionID == id && seen.insert($0.fact.transactionID).inserted }
      guard page.hasMore == true, let next = page.revision, next != revision else { break }
      revision = next
    }
    return transactions
  }
}

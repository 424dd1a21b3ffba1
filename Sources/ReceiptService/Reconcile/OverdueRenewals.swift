import AppStore
import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Asks the App Store about subscriptions that should have renewed, or ended, and of which nothing was heard.
struct OverdueRenewals: Sendable {
  let pool: PostgresPool
  let verifier: SignedDataVerifier
  let ledger: LedgerWriter
  let clock: ServiceClock
  let logger: Logger

  private static let page = 32
  /// A customer's whole history of purchases is at most this many pages of 20; what is beyond is old.
  private static let maximumHistoryPages = 20

  /// Asks about all that are overdue, each at most once a day.
  func ask(
    _ api: AppStoreServerAPI, _ app: App, _ environment: Environment, into report: inout ReconcileReport
  ) async throws {
    while true {
      let instant = clock.now()
      let overdue = try await pool.query(
        ReconcileRows.claimOverdue(
          bundleID: app.bundleID, environment: environment.rawValue, at: instant, limit: Self.page)
      ).map { try $0.decode(0, as: String.self) }
      if overdue.isEmpty { return }
      for id in overdue {
        report.statusesAsked += 1
        try await ask(api, about: id, of: app, environment, into: &report)
      }
    }
  }

  private func ask(
    _ api: AppStoreServerAPI, about id: String, of app: App, _ environment: Environment,
    into report: inout ReconcileReport
  ) async throws {
    let answer: StatusResponse
    do throws(AppStoreServerError) {
      answer = try await api.subscriptionStatuses(anyTransactionID: id, in: environment)
    } catch {
      // The store does not know it any more: nothing to learn, and no reason to leave the others.
      guard error.code == .transactionIdNotFound else { throw error }
      logger.warning("the App Store does not know a subscription", metadata: ["purchase": "\(id)"])
      return
    }
    for item in (answer.data ?? []).flatMap({ $0.lastTransactions ?? [] }) {
      guard let entry = entry(of: item, in: app) else { continue }
      let receipt = try await ledger.record(entry)
      let isNewPeriod =
        receipt.subscription?.subscription.current.transactionID
        != receipt.previous?.subscription.current.transactionID
      if isNewPeriod, receipt.isNews { try await takeHistory(api, of: entry, app, environment) }
      guard let repair = report.note(receipt, cause: "status", at: entry.instant) else { continue }
      _ = try await pool.query(
        SupportActionRows.insertRepair(repair, bundleID: app.bundleID, at: entry.instant))
    }
  }

  private func entry(of item: LastTransactionsItem, in app: App) -> LedgerEntry? {
    guard let jws = item.signedTransactionInfo, let transaction = verified(jws, in: app) else { return nil }
    var entry = LedgerEntry(
      app: app, originalTransactionID: transaction.fact.originalTransactionID,
      transactions: [transaction], instant: clock.now())
    if let jws = item.signedRenewalInfo, let signed = try? verifier.renewalInfo(jws),
      (try? app.identity.check(signed.payload)) != nil, let record = try? RenewalRecord(signed),
      record.fact.originalTransactionID == entry.originalTransactionID
    {
      entry.renewals = [record]
    }
    return entry
  }

  /// A status tells of the latest period only; the periods between it and what was known are in the history.
  private func takeHistory(
    _ api: AppStoreServerAPI, of entry: LedgerEntry, _ app: App, _ environment: Environment
  ) async throws {
    guard let id = entry.originalTransactionID else { return }
    var request = TransactionHistoryRequest()
    request.sort = .descending
    var revision: String?
    for _ in 0..<Self.maximumHistoryPages {
      let page = try await api.transactionHistory(
        anyTransactionID: id, request, revision: revision, in: environment)
      let transactions = (page.signedTransactions ?? []).compactMap { verified($0, in: app) }
        .filter { $0.fact.originalTransactionID == id }
      if !transactions.isEmpty {
        var earlier = entry
        earlier.transactions = transactions
        earlier.renewals = []
        _ = try await ledger.record(earlier)
      }
      guard page.hasMore == true, let next = page.revision, next != revision else { return }
      revision = next
    }
  }

  private func verified(_ jws: String, in app: App) -> TransactionRecord? {
    do {
      let signed = try verifier.transaction(jws)
      try app.identity.check(signed.payload)
      return try TransactionRecord(signed)
    } catch {
      logger.error("an answer of the App Store does not verify", metadata: ["reason": "\(error)"])
      return nil
    }
  }
}

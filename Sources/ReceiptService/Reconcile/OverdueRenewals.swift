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

  /// How long one that is being asked about is kept from other servers.
  private static let lease: TimeInterval = 600
  /// A customer's whole history of purchases is at most this many pages of 20; what is beyond is old.
  private static let maximumHistoryPages = 20

  /// Asks about all that are overdue, each at most once a day. One that cannot be asked about or written does
  /// not keep the others waiting; only what would befall them all ends it.
  func ask(
    _ api: AppStoreServerAPI, _ app: App, _ environment: Environment, into report: inout ReconcileReport
  ) async throws {
    let run = clock.now()
    while let id = try await next(app, environment, run: run) {
      report.statusesAsked += 1
      do {
        try await ask(api, about: id, of: app, environment, into: &report)
        _ = try await pool.query(ReconcileRows.markAsked(id, at: clock.now()))
      } catch let error as AppStoreServerError where error.consequence == .nothingToLearn {
        logger.warning(
          "the App Store does not tell of a subscription",
          metadata: ["purchase": "\(id)", "reason": "\(error.reason)"])
        _ = try await pool.query(ReconcileRows.markAsked(id, at: clock.now()))
      } catch let error as AppStoreServerError where error.consequence == .stop {
        throw error
      } catch  where !isDatabaseUnavailable(error) {
        report.statusesFailed += 1
        logger.error(
          "an overdue renewal could not be taken in", metadata: ["purchase": "\(id)", "reason": "\(error)"])
      }
    }
  }

  private func next(_ app: App, _ environment: Environment, run: Date) async throws -> String? {
    try await pool.query(
      ReconcileRows.claimOverdue(
        bundleID: app.bundleID, environment: environment.rawValue, run: run, at: clock.now(),
        lease: Self.lease)
    ).first?.decode(0, as: String.self)
  }

  private func ask(
    _ api: AppStoreServerAPI, about id: String, of app: App, _ environment: Environment,
    into report: inout ReconcileReport
  ) async throws {
    let answer = try await api.subscriptionStatuses(anyTransactionID: id, in: environment)
    for item in (answer.data ?? []).flatMap({ $0.lastTransactions ?? [] }) {
      guard var entry = entry(of: item, in: app) else { continue }
      entry.transactions += try await earlier(api, than: entry, app, environment)
      entry.action = .overdueRenewal
      report.note(try await ledger.record(entry), cause: "status", at: entry.instant)
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
  /// They are written together: the latest one by itself would not be news the next time, and then nobody
  /// would ask for those before it.
  private func earlier(
    _ api: AppStoreServerAPI, than entry: LedgerEntry, _ app: App, _ environment: Environment
  ) async throws -> [TransactionRecord] {
    guard let latest = entry.transactions.first?.fact.transactionID, let id = entry.originalTransactionID,
      try await pool.query(ReconcileRows.known(transactionID: latest)).isEmpty
    else { return [] }
    var request = TransactionHistoryRequest()
    request.sort = .descending
    var transactions: [TransactionRecord] = []
    var seen: Set = [latest]
    var revision: String?
    for _ in 0..<Self.maximumHistoryPages {
      let page: HistoryResponse
      do throws(AppStoreServerError) {
        page = try await api.transactionHistory(
          anyTransactionID: id, request, revision: revision, in: environment)
      } catch {
        // The latest period decides what the customer may do, also where there will never be a history.
        guard error.consequence == .nothingToLearn else { throw error }
        break
      }
      transactions += (page.signedTransactions ?? []).compactMap { verified($0, in: app) }
        .filter { $0.fact.originalTransactionID == id && seen.insert($0.fact.transactionID).inserted }
      guard page.hasMore == true, let next = page.revision, next != revision else { break }
      revision = next
    }
    return transactions
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

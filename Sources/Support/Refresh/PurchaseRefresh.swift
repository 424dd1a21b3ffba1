import AppStore
import Customers
import Deliveries
import Foundation
import Ledger
import Postgres
import Subscriptions
import Text
import Work

/// Reads the statuses and the history of a customer's purchases in one app from the App Store, and records them.
struct PurchaseRefresh: Sendable {
  let signed: SignedPurchases
  let ledger: LedgerWriter
  let pool: PostgresPool
  let clock: ServiceClock

  /// The most pages (of 20 transactions) to read of a history, the latest first.
  private static let maximumPages = 50

  /// Asks about all purchases of the Apple Account that made a transaction.
  /// - Throws: `AppStoreServerError`; errors of the database.
  func refresh(
    _ transactionID: String, of app: App, in environment: Environment, from api: AppStoreServerAPI
  ) async throws -> [RefreshedPurchase] {
    var refreshed: [RefreshedPurchase] = []
    var told: [(originalTransactionID: String, fact: TransactionFact)] = []
    for entry in try await entries(about: transactionID, of: app, in: environment, from: api) {
      let news = try await news(in: entry.transactions, entry.renewals.first)
      let receipt = try await ledger.record(entry)
      guard let stored = receipt.subscription else { continue }
      told += entry.transactions.map { (originalTransactionID: stored.originalTransactionID, fact: $0.fact) }
      refreshed.append(
        RefreshedPurchase(
          originalTransactionID: stored.originalTransactionID, bundleID: app.bundleID,
          environment: environment.rawValue, changes: receipt.changes(news, at: entry.instant)))
    }
    _ = try await pool.query(
      OldProofRows.markTold(told, at: clock.now()), lockTimeout: LockTimeout.alone)
    return refreshed
  }

  /// One entry for each purchase, with all that the App Store told of it.
  private func entries(
    about transactionID: String, of app: App, in environment: Environment, from api: AppStoreServerAPI
  ) async throws -> [LedgerEntry] {
    let instant = clock.now()
    var entries: [String: LedgerEntry] = [:]
    let statuses = try await statuses(of: transactionID, in: environment, from: api)
    for item in statuses {
      guard let entry = signed.entry(of: item, in: app, to: .refresh, at: instant),
        let id = entry.originalTransactionID
      else { continue }
      entries[id] = entry
    }
    for record in try await history(of: transactionID, app, in: environment, from: api) {
      let id = record.fact.originalTransactionID
      var entry =
        entries[id]
        ?? LedgerEntry(
          app: app, originalTransactionID: id, because: .answer(.refresh), instant: instant)
      if !entry.transactions.contains(where: { $0.fact.transactionID == record.fact.transactionID }) {
        entry.transactions.append(record)
      }
      entries[id] = entry
    }
    return entries.sorted { $0.key < $1.key }.map(\.value)
  }

  /// The customer's subscriptions; none if the App Store knows the transaction as no subscriber's.
  private func statuses(
    of transactionID: String, in environment: Environment, from api: AppStoreServerAPI
  ) async throws -> [LastTransactionsItem] {
    do throws(AppStoreServerError) {
      let answer = try await api.subscriptionStatuses(anyTransactionID: transactionID, in: environment)
      return (answer.data ?? []).flatMap { $0.lastTransactions ?? [] }
    } catch {
      guard error.retryDecision == .skip else { throw error }
      return []
    }
  }

  private func history(
    of transactionID: String, _ app: App, in environment: Environment, from api: AppStoreServerAPI
  ) async throws -> [TransactionRecord] {
    var transactions: [TransactionRecord] = []
    var revision: String?
    for _ in 0..<Self.maximumPages {
      let page = try await api.transactionHistory(
        anyTransactionID: transactionID, revision: revision, in: environment)
      transactions += (page.signedTransactions ?? []).compactMap { signed.transaction($0, in: app) }
      guard page.hasMore == true, let next = page.revision, next != revision else { break }
      revision = next
    }
    return transactions
  }

  private static func price(in claims: StaticString) -> String {
    "round((\(claims) ->> 'renewalPrice')::numeric * 0.001, 2)::text || ' ' || (\(claims) ->> 'currency')"
  }

  /// The price of the next period, if it differs from what is recorded.
  private func news(in renewal: RenewalRecord) async throws -> [FieldChange] {
    let rows = try await pool.query(
      """
      SELECT \(unescaped: Self.price(in: "r.other_claims")) AS before, \(unescaped: Self.price(in: "told.claims")) AS after
      FROM (SELECT \(renewal.otherClaims)::jsonb AS claims) AS told
      LEFT JOIN renewals r ON r.original_transaction_id = \(renewal.fact.originalTransactionID)
      WHERE r.signed_at IS NULL OR r.signed_at < \(renewal.fact.signedAt)
      """)
    guard let row = rows.first else { return [] }
    let (before, after): (String?, String?) = (try row.decode("before"), try row.decode("after"))
    return before == after ? [] : [FieldChange(field: "renewalPrice", before: before, after: after)]
  }

  /// The transactions that are not recorded yet, and the refunds and the price that differ from what is recorded.
  func news(
    in transactions: [TransactionRecord], _ renewal: RenewalRecord? = nil
  ) async throws -> [FieldChange] {
    let facts = transactions.map(\.fact)
    let rows = try await pool.query(
      "SELECT transaction_id, revoked_at FROM transactions WHERE transaction_id = ANY(\(facts.map(\.transactionID)))"
    )
    var known: [String: String?] = [:]
    for row in rows {
      let revocation = try row.decode("revoked_at", as: Date?.self)
      known[try row.decode("transaction_id", as: String.self)] = .some(revocation?.rfc3339)
    }
    var changes: [FieldChange] = []
    if known.count < facts.count {
      changes.append(
        FieldChange(field: "recorded transactions", before: "\(known.count)", after: "\(facts.count)"))
    }
    if let renewal { changes += try await news(in: renewal) }
    for fact in facts {
      let revocation = fact.revocationDate?.rfc3339
      guard let recorded = known[fact.transactionID], recorded != revocation else { continue }
      changes.append(
        FieldChange(field: "refund of \(fact.transactionID)", before: recorded, after: revocation))
    }
    return changes
  }
}

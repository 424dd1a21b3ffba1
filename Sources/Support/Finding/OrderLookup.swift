import Actions
import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import Ledger
import Postgres
import Subscriptions
import Work

/// Asks the App Store for the transactions of an order id (Look Up Order ID), and keeps the answer. What the answer
/// repairs is recorded in `support_actions`, in the same commit.
struct OrderLookup: Sendable {
  let catalog: AppCatalog
  /// By bundle id.
  let apis: [String: AppStoreServerAPI]
  let signed: SignedPurchases
  let ledger: LedgerWriter
  let pool: PostgresPool
  let clock: ServiceClock
  /// The actor in the record of what the answer repairs.
  let actor: SupportActor

  /// The App Store's answer about an order id.
  enum Answer: Sendable, Hashable {
    /// The transactions are recorded.
    case recorded
    /// No app that has a key has such an order.
    case unknown
    /// An app could not be asked, for this reason.
    case unavailable(String)
  }

  /// Whether a text has the form of an order id in Apple's e-mails, such as `MVJ8Z0DJ7B`.
  static func isOrderID(_ text: String) -> Bool {
    let letters = text.utf8
    return (8...20).contains(letters.count) && text.hasPrefix("M")
      && letters.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
  }

  /// Asks for each app with a key, in production and then in the sandbox, until one has the order.
  /// - Throws: errors of the database.
  func look(up orderID: String) async throws -> Answer {
    guard !apis.isEmpty else { return .unavailable("no App Store Connect key is configured") }
    var reason: String?
    for app in catalog.apps {
      guard let api = apis[app.bundleID] else { continue }
      switch await transactions(of: orderID, app, api) {
      case .success(let transactions):
        guard !transactions.isEmpty else { continue }
        try await keep(transactions, of: orderID, app)
        return .recorded
      case .failure(let error): reason = "\(app.bundleID): \(error.reason)"
      }
    }
    return reason.map(Answer.unavailable) ?? .unknown
  }

  /// The order's transactions in one app; empty if neither environment has the order.
  private func transactions(
    of orderID: String, _ app: App, _ api: AppStoreServerAPI
  ) async -> Result<[TransactionRecord], AppStoreServerError> {
    var isAnswered = false
    var refusal: AppStoreServerError?
    for environment in [Environment.production, .sandbox] {
      do throws(AppStoreServerError) {
        let answer = try await api.lookUpOrder(orderID, in: environment)
        let transactions = (answer.signedTransactions ?? []).compactMap { signed.transaction($0, in: app) }
        if !transactions.isEmpty { return .success(transactions) }
        isAnswered = true
      } catch {
        // Production answers so for an app that was never released, and now and then for others.
        if case .unauthorizedWithoutJSON = error, environment == .production {
          refusal = .answeredBySandboxAlone
          continue
        }
        // Orders are of production; the sandbox has some for tests.
        guard error.retryDecision == .skip || isAnswered else { return .failure(error) }
      }
    }
    return refusal.map { .failure($0) } ?? .success([])
  }

  private func keep(_ transactions: [TransactionRecord], of orderID: String, _ app: App) async throws {
    let instant = clock.now()
    let refresh = PurchaseRefresh(signed: signed, ledger: ledger, pool: pool, clock: clock)
    for (purchase, records) in Dictionary(grouping: transactions, by: \.fact.originalTransactionID)
      .sorted(by: { $0.key < $1.key })
    {
      let changes = try await refresh.news(in: records)
      _ = try await ledger.record(
        LedgerEntry(
          app: app, originalTransactionID: purchase, transactions: records,
          because: .answer(.lookup(by: actor, changes: changes)), instant: instant))
    }
    _ = try await pool.query(OrderRows.insert(transactions, of: orderID, at: instant))
  }
}

/// The table `store_orders`.
enum OrderRows {
  static func transactions(of orderID: String) -> Query {
    "SELECT transaction_id FROM store_orders WHERE order_id = \(orderID) ORDER BY transaction_id"
  }

  /// Keeps the transactions of an order.
  static func insert(_ transactions: [TransactionRecord], of orderID: String, at instant: Date) -> Query {
    let facts = transactions.map(\.fact)
    return """
      INSERT INTO store_orders
        (order_id, transaction_id, original_transaction_id, bundle_id, environment, looked_up_at)
      SELECT \(orderID)::text, sent.*, \(instant)::timestamptz FROM unnest(
        \(facts.map(\.transactionID))::text[], \(facts.map(\.originalTransactionID))::text[],
        \(facts.map(\.bundleID))::text[], \(facts.map(\.environment.rawValue))::text[]) AS sent
      ON CONFLICT DO NOTHING
      """
  }
}

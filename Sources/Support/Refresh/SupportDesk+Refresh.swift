import Actions
import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Work

/// Asks the App Store about the purchases of a customer, records the answers, and tells what they repaired.
package struct RefreshRequest: SupportRequest {
  package static let operation = SupportOperation.refresh
  /// The App Store is asked in any case, and its answers count.
  package static let hasPreview = false

  /// Anything that ``SupportDesk/find(_:by:)`` finds, or a transaction id that only the App Store knows.
  var id: String

  package init(id: String) {
    self.id = id
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RefreshReport {
    try await desk.refresh(id, by: author)
  }
}

extension SupportDesk {
  fileprivate func refresh(_ text: String, by author: SupportAuthor) async throws -> RefreshReport {
    var found = try await find(text, by: author.actor)
    let customers = found.search.customers
    let recorded = try await pool.withConnection { try await self.recorded(customers, $0) }
    // After the records were read: a customer that was erased in between is not found any more.
    if !customers.isEmpty { found = try await find(text) }
    guard found.isFound || found.outcome == .askApple && found.id.isTransactionID else {
      throw SupportRefusal.notFound("Nothing to ask about: \(found.detail).")
    }
    var targets = try await targets(of: found.search)
    // A client may name a device or an event like a transaction that is not recorded.
    if targets.isEmpty, found.id.isTransactionID { targets = try await located(found.id) }
    guard !targets.isEmpty else {
      throw SupportRefusal.notFound("Nothing to ask about: \(found.detail) has no purchase.")
    }
    var report = RefreshReport(asked: text)
    let refresh = PurchaseRefresh(signed: signed, ledger: ledger, pool: pool, clock: clock)
    for target in targets {
      // One response is about all purchases of the Apple Account.
      guard !report.purchases.contains(where: { $0.originalTransactionID == target.transactionID }) else {
        continue
      }
      do {
        report.purchases += try await refresh.refresh(
          target.transactionID, of: target.app, in: target.environment, from: target.api)
      } catch let error as AppStoreServerError {
        report.failures.append("\(target.transactionID) (\(target.app.bundleID)): \(error.reason)")
      }
    }
    report.purchases.sort { $0.originalTransactionID < $1.originalTransactionID }
    try await record(report, of: found, recorded, by: author)
    return report
  }

  /// Records the refresh. A customer may have been erased while the App Store was asked: then the record names neither
  /// the customer nor what support wrote about the customer, as if the erasure had come afterwards.
  /// - Parameter recorded: those of the customers that the database had when the App Store was asked.
  private func record(
    _ report: RefreshReport, of found: FindResult, _ recorded: Set<CustomerSearch.Match>,
    by author: SupportAuthor
  ) async throws {
    let matches = found.search.customers
    let asked = found.isFound ? found.search.kinds : [.transaction]
    let erased = try SupportAuthor(by: author.actor, reason: "(erased)")
    let instant = clock.now()
    try await customerTransactions.run(locking: Set(matches.map(\.customer.lockName))) { connection, _ in
      let gone = recorded.subtracting(try await self.recorded(matches, connection))
      let known = matches.filter { !gone.contains($0) }
      let goneApps = Set(gone.map(\.bundleID))
      let unnamed = report.purchases.filter { purchase in
        !known.contains { $0.bundleID == purchase.bundleID }
      }
      let actions =
        known.map { match in
          SupportAction(
            name: "refresh", bundleID: match.bundleID, to: match.customer,
            details: report.details(asked) { $0.bundleID == match.bundleID })
        }
        + unnamed.filter { !goneApps.contains($0.bundleID) }.map { purchase in
          SupportAction(
            name: "refresh", bundleID: purchase.bundleID,
            originalTransactionID: purchase.originalTransactionID,
            details: report.details(asked) { $0.originalTransactionID == purchase.originalTransactionID })
        }
      let erasedActions = unnamed.filter { goneApps.contains($0.bundleID) }.map {
        SupportAction(
          name: "refresh", bundleID: $0.bundleID, originalTransactionID: $0.originalTransactionID)
      }
      _ = try await connection.pipeline([
        SupportActionRows.insert(actions, by: author, at: instant),
        SupportActionRows.insert(erasedActions, by: erased, at: instant),
      ])
    }
  }

  /// Those of the customers that any record names.
  private func recorded(
    _ customers: [CustomerSearch.Match], _ connection: PostgresConnection
  ) async throws -> Set<CustomerSearch.Match> {
    var recorded: Set<CustomerSearch.Match> = []
    for match in customers {
      let search = try await CustomerSearch(match.customer.id, in: catalog, connection)
      if search.records(match) { recorded.insert(match) }
    }
    return recorded
  }

  /// A transaction to ask about.
  private struct Target {
    var transactionID: String
    var app: App
    var environment: Environment
    var api: AppStoreServerAPI
  }

  /// The recorded purchases of what was found.
  private func targets(of search: CustomerSearch) async throws -> [Target] {
    let records = try await pool.customerRecords(
      users: search.customers.compactMap(\.customer.userID),
      devices: search.customers.compactMap(\.customer.deviceID))
    var purchases = try await pool.query(SubscriptionRows.select(search.purchases)).map(
      SubscriptionRows.decode)
    for match in search.customers {
      guard let app = catalog[match.bundleID] else { continue }
      purchases += records[match.customer].purchases(of: app)
    }
    var targets: [Target] = []
    for stored in purchases
    where !targets.contains(where: { $0.transactionID == stored.originalTransactionID }) {
      guard let app = catalog[stored.bundleID] else { continue }
      targets.append(
        Target(
          transactionID: stored.originalTransactionID, app: app,
          environment: Environment(rawValue: stored.subscription.current.environment.rawValue),
          api: try api(of: app)))
    }
    return targets
  }

  /// The app and the environment of a transaction that is not recorded.
  private func located(_ transactionID: String) async throws -> [Target] {
    var reason: String?
    for app in catalog.apps {
      guard let api = apis[app.bundleID] else { continue }
      do throws(AppStoreServerError) {
        let environment = try await api.locate(transactionID).environment
        return [Target(transactionID: transactionID, app: app, environment: environment, api: api)]
      } catch {
        if error.retryDecision != .skip { reason = error.reason }
      }
    }
    if let reason { throw ServiceError.storeUnavailable("The App Store could not be asked: \(reason).") }
    guard let app = catalog.apps.first(where: { apis[$0.bundleID] != nil }) ?? catalog.apps.first else {
      return []
    }
    _ = try api(of: app)
    throw SupportRefusal.notFound("The App Store has no transaction \(transactionID) of these apps.")
  }

  private func api(of app: App) throws -> AppStoreServerAPI {
    guard let api = apis[app.bundleID] else {
      throw ServiceError.storeUnavailable("No App Store Connect key is configured for \(app.bundleID).")
    }
    return api
  }
}

extension RefreshReport {
  /// The column `details`: what changed in the purchases that fit. It has the kind of the id that support gave and not
  /// the id, which may be an e-mail address, an order, or another device's.
  fileprivate func details(
    _ asked: Set<FoundKind>, where fits: (RefreshedPurchase) -> Bool
  ) -> [String: JSONValue] {
    var details: [String: JSONValue] = [
      "asked": .string(asked.map(\.words).sorted().joined(separator: ", "))
    ]
    for purchase in purchases where fits(purchase) {
      details[purchase.originalTransactionID] = .array(
        purchase.changes.map { .string($0.description) })
    }
    if !failures.isEmpty { details["failures"] = .array(failures.map(JSONValue.string)) }
    return details
  }
}

import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// Writes customers' status to profiles and queues webhook events, in the transaction that changes a grant or a trial.
/// (Purchases do the same in the ledger's transaction.)
struct CustomerStatusWriter: Sendable {
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger

  /// Locks these customers. Must be the transaction's first statement.
  static func lock(_ customers: some Sequence<Customer>) -> Query {
    AdvisoryLock.acquire(.customer, Set(customers.map(\.lockName)))
  }

  /// Writes the customers' status at this instant and queues it for the app's destinations.
  /// - Parameters:
  ///   - customers: customers whose locks the transaction holds.
  ///   - bundleID: the app whose grants or trials changed.
  func write(
    _ customers: some Sequence<Customer>, of bundleID: String, at instant: Date,
    on connection: PostgresConnection
  ) async throws {
    let customers = Set(customers)
    let changes = customers.map { CustomerChange(bundleID: bundleID, customer: $0) }
    if let events = CustomerChanges.enqueue(changes, in: catalog, at: instant) {
      _ = try await connection.query(events)
    }
    let users = customers.compactMap(\.userID).sorted()
    guard !users.isEmpty else { return }
    let answers = try await connection.pipeline(CustomerRecordRows.select(users: users, devices: []))
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    _ = try await writer.write(changes, customerRecords: CustomerRecordRows.decode(answers), on: connection)
  }
}

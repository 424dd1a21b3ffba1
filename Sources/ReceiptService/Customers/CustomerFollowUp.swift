import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Brings what others read of customers up to date, in the transaction that changed what they have other than
/// by a purchase's facts: a grant, a trial.
struct CustomerFollowUp: Sendable {
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger

  /// Waits for these customers; to be the first statement of the transaction that changes them.
  static func lock(_ customers: some Sequence<Customer>) -> Query {
    AdvisoryLock.acquire(.customer, Set(customers.map(\.lockName)))
  }

  /// Writes their status of this instant, and has it sent to wherever the app's configuration says.
  /// - Parameters:
  ///   - customers: the transaction holds their locks.
  ///   - bundleID: the app of which what they have has changed.
  func write(
    _ customers: some Sequence<Customer>, of bundleID: String, at instant: Date,
    on connection: PostgresConnection
  ) async throws {
    let customers = Set(customers)
    let changes = customers.map { CustomerChange(bundleID: bundleID, customer: $0) }
    if let notes = CustomerChanges.enqueue(changes, in: catalog, at: instant) {
      _ = try await connection.query(notes)
    }
    let users = customers.compactMap(\.userID).sorted()
    guard !users.isEmpty else { return }
    let answers = try await connection.pipeline(HoldingsRows.select(users: users, devices: []))
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    _ = try await writer.write(changes, holdings: HoldingsRows.decode(answers), on: connection)
  }
}

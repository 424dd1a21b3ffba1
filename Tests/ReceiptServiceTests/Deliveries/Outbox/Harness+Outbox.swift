import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

extension Harness {
  /// A device with a validated purchase.
  func deviceBuys(
    _ name: String, _ productID: String = TestApps.individual
  ) async throws -> SignedOutcome {
    let bought = try buy(productID, bundleID: TestApps.family)
    _ = try await device(name, shows: bought)
    return bought
  }

  /// Adds outbox rows for devices without purchases.
  func note(devices: [String]) async throws {
    let catalog = service.deliveries.outbox.catalog
    let changes = devices.map { CustomerChange(bundleID: TestApps.family, customer: .device($0)) }
    let query = try #require(CustomerChanges.enqueue(changes, in: catalog, at: clock.now))
    _ = try await pool.query(query)
  }

  /// The number of outbox rows by state.
  func outboxStates() async throws -> [String: Int] {
    let rows = try await pool.query("SELECT state, count(*) FROM support_outbox GROUP BY 1")
    return Dictionary(
      try rows.map { (try $0.decode("state", as: String.self), try $0.decode("count", as: Int.self)) },
      uniquingKeysWith: { $1 })
  }

  /// The number of undelivered outbox rows.
  func undelivered() async throws -> Int {
    try await pool.query("SELECT count(*) FROM outbox WHERE done_at IS NULL")[0].decode("count", as: Int.self)
  }
}

/// A flag that tasks share.
final class Flag: Sendable {
  private let flag = Atomic(false)

  var isRaised: Bool { flag.load(ordering: .acquiring) }

  func raise() { flag.store(true, ordering: .releasing) }
}

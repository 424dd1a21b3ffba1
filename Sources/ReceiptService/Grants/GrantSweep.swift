import FoundationEssentials
import Postgres
import Subscriptions

/// Brings profiles up to date when a grant begins or ends. Answers read the grants themselves and are right at every
/// instant; what others read has to be written anew.
///
/// Any number of servers may sweep: each customer is taken under the customer's lock, and what one has followed is not
/// due for the next. A grant that began and ended while no server ran is due once.
struct GrantSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let followUp: CustomerFollowUp
  let clock: ServiceClock

  private static let batch = 128

  /// Follows everything that is due.
  /// - Returns: how many customers were due and followed here.
  func run() async throws -> Int {
    var count = 0
    var seen: Set<Customer> = []
    while true {
      let instant = clock.now()
      let rows = try await pool.query(
        GrantRows.due(in: catalog.apps.map(\.bundleID), at: instant, limit: Self.batch))
      let due = try rows.compactMap { row in
        try row.decode(0, as: UUID?.self).map(Customer.user)
          ?? row.decode(1, as: String?.self).map(Customer.device)
      }
      let fresh = due.filter { seen.insert($0).inserted }
      guard !fresh.isEmpty else { return count }
      for customer in fresh where try await follow(customer, at: instant) { count += 1 }
    }
  }

  private func follow(_ customer: Customer, at instant: Date) async throws -> Bool {
    try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([customer]), GrantRows.follow(customer, at: instant),
      ])
      guard !answers[1].isEmpty else { return false }
      try await followUp.write([customer], at: instant, on: connection)
      return true
    }
  }
}

import Customers
import Foundation
import Postgres
import Subscriptions
import Work

/// Writes the true status over values that old builds wrote while a table accepted them.
///
/// It writes rows of users with a decided claim, with a purchase that counts, or with a claim against receiptd's
/// decision. A table that accepts client writes stays as it is: the old build would write its values again.
struct ProfileCorrection: Sendable {
  let app: App
  let modes: ClientWriteModes
  let statusWriter: CustomerStatusWriter
  let pool: PostgresPool

  /// The users of one page.
  private static let batch = 100

  /// The app's tables that do not accept client writes.
  func tables() async throws -> [ProfileTable] {
    let stored = try await ClientWriteModes.read(pool)
    return ProfileTable.all.filter { table in
      app.writeTo.contains(table.destination)
        && stored.contains { stored in
          stored.table == table.destination.rawValue
            && [.observe, .refuse].contains(modes.mode(of: table, stored))
        }
    }
  }

  /// Corrects the rows of these tables.
  /// - Parameter denied: the users with a claim against receiptd's decision.
  /// - Returns: how many rows had other values.
  func run(_ tables: [ProfileTable], also denied: [UUID]) async throws -> Int {
    guard !tables.isEmpty else { return 0 }
    var count = 0
    for users in denied.chunked(by: Self.batch) { count += try await correctAll(users, in: tables) }
    var last: UUID?
    while true {
      let users = try await pool.query(
        AdoptionRows.decidedUsers(of: app, after: last, limit: Self.batch)
      ).map { try $0.decode("user_id", as: UUID.self) }
      last = users.last
      count += try await correctAll(users, in: tables)
      if users.count < Self.batch { return count }
    }
  }

  private func correctAll(_ users: [UUID], in tables: [ProfileTable]) async throws -> Int {
    let (corrected, locked) = try await LockedGroups.run(users) { try await correct($0, in: tables) }
    var count = corrected
    // They wait for longer, one by one.
    for user in locked { count += try await correct([user], in: tables, timeout: LockTimeout.alone) }
    return count
  }

  private func correct(
    _ users: [UUID], in tables: [ProfileTable], timeout: Duration = LockedGroups.lockTimeout
  ) async throws -> Int {
    let customers = users.map { Customer.user($0) }
    let writer = ProfileWriter(
      catalog: statusWriter.catalog, clock: statusWriter.clock, logger: statusWriter.logger, tables: tables)
    return try await pool.withTransaction { connection in
      _ = try await connection.query(CustomerStatusWriter.lock(customers, timeout: timeout))
      let before = try await values(of: users, in: tables, on: connection)
      let records = try await connection.customerRecords(users: users)
      _ = try await writer.write(
        customers.map { CustomerChange(bundleID: app.bundleID, customer: $0) },
        customerRecords: records, on: connection)
      let after = try await values(of: users, in: tables, on: connection)
      return after.subtracting(before).count
    }
  }

  /// The premium values of each row, as text.
  private func values(
    of users: [UUID], in tables: [ProfileTable], on connection: PostgresConnection
  ) async throws -> Set<[String]> {
    var values: Set<[String]> = []
    for table in tables {
      for row in try await connection.query(table.values(users)) {
        let user = try row.decode("user_id", as: UUID.self)
        values.insert([table.destination.rawValue, user.uuidString, try row.decode("values")])
      }
    }
    return values
  }
}

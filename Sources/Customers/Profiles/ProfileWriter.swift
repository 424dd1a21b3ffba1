import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// Writes users' premium status to the apps' own tables, in the transaction that changes their purchases or grants.
///
/// Another transaction may hold a row's lock, a trigger or constraint may refuse the row, or the table may require
/// columns that receiptd does not know. None of this may roll back the purchase or delay other customers: all waits are
/// short, and a status that cannot be written goes to the outbox for ``ProfileRetry``.
package struct ProfileWriter {
  let catalog: AppCatalog
  /// Read after the customers' locks are held, so that a grant committed before has begun.
  let clock: ServiceClock
  let logger: Logger
  /// The tables that are written.
  package var tables = ProfileTable.all
  /// The timeout of a statement on the app's own table.
  let timeout: Duration

  package init(
    catalog: AppCatalog, clock: ServiceClock, logger: Logger, tables: [ProfileTable] = ProfileTable.all,
    timeout: Duration = Self.timeout
  ) {
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
    self.tables = tables
    self.timeout = timeout
  }

  /// Whether any of these changes has to be written to a table.
  package func isNeeded(for changes: some Sequence<CustomerChange>) -> Bool {
    let bundleIDs = Set(changes.lazy.filter { $0.customer.userID != nil }.map(\.bundleID))
    return bundleIDs.contains { bundleID in
      catalog[bundleID].map { app in
        app.customer == .user && ProfileTable.all.contains { app.writeTo.contains($0.destination) }
      } ?? false
    }
  }

  /// The queries that select and lock rows of the first table. Sent in the pipeline of other statements, they save a
  /// round trip. Empty if nothing has to be written.
  package func selectsAhead(for changes: some Sequence<CustomerChange>) -> [Query] {
    writes(for: changes).first.map { [Self.limits(timeout), $0.table.select($0.users)] } ?? []
  }

  /// Writes the users' status to every table that the changed apps write to, and to no other table.
  /// - Parameters:
  ///   - changes: customers and apps whose status may have changed; the transaction holds the customers' locks.
  ///   - customerRecords: these users' records of all apps.
  ///   - former: users who had a purchase that counted before this transaction.
  ///   - ahead: the result of ``selectsAhead(for:)``, if it was sent.
  ///   - commits: whether to commit with the last statement, which saves a round trip.
  /// - Returns: the users with a status that could not be written, each with the reason; they are in the outbox.
  package func write(
    _ changes: some Sequence<CustomerChange>, customerRecords: RecordsByCustomer, former: Set<UUID> = [],
    on connection: PostgresConnection,
    ahead: Result<SavepointAttempt, PostgresError>? = nil, commits: Bool = false
  ) async throws -> [UUID: String] {
    let tableWrites = writes(for: changes)
    var tables: [UUID: [StatusDestination]] = [:]
    for (table, _, users) in tableWrites {
      for user in users { tables[user, default: []].append(table.destination) }
    }
    // A later attempt knows nothing of a former purchase.
    let decided = tables.filter { former.contains($0.key) }
    let instant = clock.now()
    var unwritten: [UUID: String] = [:]
    for (index, (table, apps, users)) in tableWrites.enumerated() {
      let writes = users.map { user in
        var write = write(of: user, customerRecords[.user(user)], in: apps, at: instant)
        if former.contains(user) { write.isDecided = true }
        return write
      }
      let refused = try await write(
        writes, to: table, connection, ahead: index == 0 ? ahead : nil,
        after: index == tableWrites.count - 1 && commits
          ? Waiting(users: Set(unwritten.keys), tables: tables, decided: decided) : nil)
      unwritten.merge(refused) { former, _ in former }
      if connection.isCommitted { return unwritten }
    }
    if !unwritten.isEmpty {
      _ = try await connection.query(
        outbox(Waiting(users: Set(unwritten.keys), tables: tables, decided: decided)))
    }
    return unwritten
  }

  /// The users whose status goes to the outbox.
  private struct Waiting {
    var users: Set<UUID>
    /// The tables that a user's status is for.
    let tables: [UUID: [StatusDestination]]
    /// The tables in which the status of a user replaces every claim.
    let decided: [UUID: [StatusDestination]]
  }

  /// The timeout of a statement on the app's own table, while a request or a batch waits.
  package static let timeout: Duration = .milliseconds(500)

  /// Locked rows are skipped. An uncommitted insert of the same row is invisible, and a second insert waits for it: at
  /// most this lock timeout. The app's triggers may need the bitmap scans that ``LookupPlans`` disable.
  /// `receiptd.serves` tells triggers that the server writes, and not the app's backend: see the table
  /// `backend_writes`.
  static func limits(_ timeout: Duration = Self.timeout) -> Query {
    """
    SELECT set_config('lock_timeout', '250ms', true),
      set_config('statement_timeout', \("\(Int(timeout / .milliseconds(1)))ms")::text, true),
      set_config('enable_bitmapscan', 'on', true), set_config('receiptd.serves', 'on', true)
    """
  }

  private func outbox(_ waiting: Waiting) -> Query {
    ProfileRetryRows.insert(
      waiting.users.sorted().map { ($0, waiting.tables[$0] ?? [], waiting.decided[$0] ?? []) },
      at: clock.now())
  }

  /// The tables to write, each with its apps and users.
  private func writes(
    for changes: some Sequence<CustomerChange>
  ) -> [(table: ProfileTable, apps: [App], users: [UUID])] {
    tables.compactMap { table in
      let apps = apps(writingTo: table)
      let bundleIDs = Set(apps.map(\.bundleID))
      let users = Set(changes.lazy.filter { bundleIDs.contains($0.bundleID) }.compactMap(\.customer.userID))
      // Sorted, so that all servers lock rows in one order.
      return users.isEmpty ? nil : (table, apps, users.sorted())
    }
  }

  func apps(writingTo table: ProfileTable) -> [App] {
    catalog.apps.filter { $0.customer == .user && $0.writeTo.contains(table.destination) }
  }

  /// The strongest status among the apps that write to one table. Among apps without a status, the largest free limit
  /// of bookmarks counts.
  private func write(
    of user: UUID, _ customerRecords: CustomerRecordSet, in apps: [App], at instant: Date
  ) -> ProfileWrite {
    let isDecided = apps.contains { app in
      customerRecords.purchases(of: app).contains(where: \.isCounted)
    }
    let free = ProfileWrite(
      userID: user, status: .free, bookmarkLimit: apps.map(\.bookmarkLimits.free).max() ?? 0,
      isDecided: isDecided)
    return apps.reduce(free) { best, app in
      // A profile shows purchases and grants. Free access is for everyone and temporary, so it is left out.
      let own = customerRecords.customerRecords(
        of: app, for: .user(user), freeAccess: .never, at: instant)
      let entitlements = app.entitlements(of: own, for: .user(user), at: instant)
      let status = PremiumStatus(entitlements, at: instant)
      guard status.isStronger(than: best.status) else { return best }
      return ProfileWrite(
        userID: user, status: status,
        bookmarkLimit: status.isPremium ? app.bookmarkLimits.premium : free.bookmarkLimit,
        isDecided: isDecided)
    }
  }

  /// Writes all rows at once. If the table refuses, writes each row alone, so that one bad row fails alone.
  /// - Parameter waiting: commits too if not `nil`; then these users go to the outbox as well.
  private func write(
    _ writes: [ProfileWrite], to table: ProfileTable, _ connection: PostgresConnection,
    ahead: Result<SavepointAttempt, PostgresError>? = nil, after waiting: Waiting? = nil
  ) async throws -> [UUID: String] {
    do {
      return try await attempt(writes, table, connection, ahead: ahead?.get(), after: waiting)
    } catch let error as PostgresError where error.isRefusal {
      // After a timeout do not retry row by row: the customers behind would wait.
      if writes.count == 1 || error.isTimeout {
        logger.warning(
          "a premium status could not be written; it will be retried",
          metadata: [
            "table": "\(table.destination.rawValue)", "sqlstate": "\(error.sqlState ?? "")",
            "constraint": "\(error.report?.constraint ?? "")", "column": "\(error.report?.column ?? "")",
          ])
        return Dictionary(uniqueKeysWithValues: writes.map { ($0.userID, error.refusal(of: table)) })
      }
      var unwritten: [UUID: String] = [:]
      for write in writes {
        unwritten.merge(try await self.write([write], to: table, connection)) { former, _ in former }
      }
      return unwritten
    }
  }

  private func attempt(
    _ writes: [ProfileWrite], _ table: ProfileTable, _ connection: PostgresConnection,
    ahead: SavepointAttempt?, after waiting: Waiting?
  ) async throws -> [UUID: String] {
    try await connection.savepoint(continuing: ahead) { connection in
      let rows =
        if let ahead { ahead.rows } else {
          try await connection.pipeline([Self.limits(timeout), table.select(writes.map(\.userID))])
        }
      var locked: Set<UUID> = []
      var skipped: Set<UUID> = []
      for row in rows[1] {
        let user = try row.decode("user_id", as: UUID.self)
        if try row.decode("is_locked", as: Bool.self) { locked.insert(user) } else { skipped.insert(user) }
      }
      // A user without a row and without a product needs no row.
      let missing = writes.filter {
        !locked.contains($0.userID) && !skipped.contains($0.userID) && $0.status.productID != nil
      }
      let known = writes.filter { locked.contains($0.userID) }
      var changes: [Query] = []
      let decided = known.filter(\.isDecided)
      let undecided = known.filter { !$0.isDecided }
      if !decided.isEmpty { changes.append(table.update(decided)) }
      if !undecided.isEmpty {
        changes.append(
          table.updateUnlessUndecided(
            undecided, of: apps(writingTo: table).map(\.bundleID), at: clock.now()))
      }
      // The update is for a row that the app has inserted since.
      if !missing.isEmpty { changes += [table.insert(missing), table.update(missing)] }
      // A deferred constraint would fail at COMMIT and roll back the purchase; check it inside the savepoint. The
      // commit may wait for a standby, so the tables' statement timeout must not apply to it.
      changes += ["SET CONSTRAINTS ALL IMMEDIATE", "SET LOCAL statement_timeout = DEFAULT"]
      let queued = waiting.map {
        Waiting(users: $0.users.union(skipped), tables: $0.tables, decided: $0.decided)
      }
      if queued?.users.isEmpty != true { changes.append("SET LOCAL lock_timeout = DEFAULT") }
      if let queued {
        _ = try await connection.commit(after: changes + (queued.users.isEmpty ? [] : [outbox(queued)]))
      } else {
        _ = try await connection.pipeline(changes)
      }
      let reason = "\(table.destination.rawValue): another transaction locks the row"
      return Dictionary(uniqueKeysWithValues: skipped.map { ($0, reason) })
    }
  }
}

extension PremiumStatus {
  fileprivate func isStronger(than other: PremiumStatus) -> Bool {
    if isPremium != other.isPremium { return isPremium }
    if (productID == nil) != (other.productID == nil) { return productID != nil }
    return (expiresAt ?? .distantFuture) > (other.expiresAt ?? .distantFuture)
  }
}

extension PostgresError {
  /// Whether the server reported an error and session and transaction still work. Inside the savepoint the app's own
  /// table raised it, whatever the SQLSTATE: a trigger may raise any.
  package var isRefusal: Bool {
    if case .server = kind { !endedTransaction && !endedSession } else { false }
  }

  /// Why the table did not take a status, without values of the row.
  fileprivate func refusal(of table: ProfileTable) -> String {
    let constraint = report?.constraint.map { ", constraint \($0)" } ?? ""
    let column = report?.column.map { ", column \($0)" } ?? ""
    let outcome = isTimeout ? "timeout" : "refused"
    return "\(table.destination.rawValue): \(outcome) (\(sqlState ?? "")\(constraint)\(column))"
  }

  /// Whether a lock or statement timeout expired (55P03, 57014).
  fileprivate var isTimeout: Bool { sqlState == "55P03" || sqlState == "57014" }
}

/// A user's premium status, to be written to the app's tables.
package struct ProfileWrite: Sendable {
  package var userID: UUID
  package var status: PremiumStatus

  /// The value of `bookmark_limit`, by the limits of the app that gives the status.
  var bookmarkLimit: Int

  /// Whether receiptd knows a purchase of the user that counts, or knew one until now. Else a row from before receiptd
  /// may have a claim that is still to be decided.
  var isDecided: Bool
}

/// Writes customers' status to profiles and queues webhook events, in the transaction that changes a grant or a trial.
/// (Purchases do the same in the ledger's transaction.)
package struct CustomerStatusWriter: Sendable {
  package let catalog: AppCatalog
  package let clock: ServiceClock
  package let logger: Logger

  package init(catalog: AppCatalog, clock: ServiceClock, logger: Logger) {
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
  }

  /// Locks these customers, in a job or a command; requests do so in ``CustomerTransactions``. Must be the
  /// transaction's first statement.
  package static func lock(
    _ customers: some Sequence<Customer>, timeout: Duration = LockTimeout.alone
  ) -> Query {
    AdvisoryLock.acquire(
      .customer, Set(customers.map(\.lockName)), lockTimeout: timeout, later: LockTimeout.alone)
  }

  /// Writes the customers' status at this instant and queues it for the app's destinations.
  /// - Parameters:
  ///   - customers: customers whose locks the transaction holds.
  ///   - bundleID: the app whose grants or trials changed.
  package func write(
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
    let records = try await connection.customerRecords(users: users)
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    _ = try await writer.write(changes, customerRecords: records, on: connection)
  }
}

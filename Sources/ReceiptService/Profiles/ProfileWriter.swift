import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Writes users' premium status where their apps want it, in the transaction of the rows it follows from.
///
/// The tables are the app's own: somebody may hold a row locked, a trigger or a constraint may refuse, the
/// row may need columns that we do not know. None of that may cost us the facts or hold up other customers,
/// so nothing here waits long, and what cannot be written goes to the outbox, to be tried again.
struct ProfileWriter {
  let catalog: AppCatalog
  /// Read when the customers' locks are held: what another transaction gave them until then has begun.
  let clock: ServiceClock
  let logger: Logger

  /// Whether these changes are written anywhere.
  func isNeeded(for changes: some Sequence<CustomerChange>) -> Bool {
    let bundleIDs = Set(changes.lazy.filter { $0.customer.userID != nil }.map(\.bundleID))
    return bundleIDs.contains { bundleID in
      catalog[bundleID].map { app in
        app.customer == .user && ProfileTable.all.contains { app.writeTo.contains($0.mirror) }
      } ?? false
    }
  }

  /// Who has a row in the first table to be written, and whether it is free: asked while others are still
  /// being written, it spares a round trip. Empty where nothing is written to any.
  func selectsAhead(for changes: some Sequence<CustomerChange>) -> [Query] {
    places(for: changes).first.map { [Self.limits, $0.table.select($0.users)] } ?? []
  }

  /// What a user has of one app says nothing about a table that this app does not write to: such a table is
  /// left alone.
  /// - Parameters:
  ///   - changes: whose status may have changed, and in which app; the transaction holds the customers' locks.
  ///   - holdings: what these users have, of all apps.
  ///   - ahead: what came of ``selectsAhead(for:)``, where that was sent.
  ///   - commits: whether to commit as well, which spares a round trip where all goes well.
  /// - Returns: the users whose status could not be written everywhere; they are in the outbox.
  func write(
    _ changes: some Sequence<CustomerChange>, holdings: HoldingsByCustomer, on connection: PostgresConnection,
    ahead: Result<SavepointAttempt, PostgresError>? = nil, commits: Bool = false
  ) async throws -> Set<UUID> {
    let places = places(for: changes)
    let instant = clock.now()
    var unwritten: Set<UUID> = []
    for (index, place) in places.enumerated() {
      let writes = place.users.map { user in
        ProfileWrite(
          userID: user, status: status(of: user, holdings[.user(user)], in: place.apps, at: instant))
      }
      unwritten.formUnion(
        try await write(
          writes, to: place.table, connection, ahead: index == 0 ? ahead : nil,
          after: index == places.count - 1 && commits ? unwritten : nil))
      if connection.isCommitted { return unwritten }
    }
    if !unwritten.isEmpty { _ = try await connection.query(outbox(unwritten)) }
    return unwritten
  }

  /// How long a statement on the app's own table may take.
  static let patience: Duration = .milliseconds(500)

  /// A row that somebody else holds is passed over. One that somebody is just inserting cannot be seen, and making it as
  /// well would wait for them: not longer than this. The app's triggers may need what ``LookupPlans`` rule out.
  private static let limits: Query = """
    SELECT set_config('lock_timeout', '250ms', true), set_config('statement_timeout', '500ms', true),
      set_config('enable_bitmapscan', 'on', true)
    """

  private func outbox(_ users: Set<UUID>) -> Query {
    OutboxRows.insertProfiles(users.sorted(), at: clock.now())
  }

  /// Each table that is to be written, by which apps and for whom.
  private func places(
    for changes: some Sequence<CustomerChange>
  ) -> [(table: ProfileTable, apps: [App], users: [UUID])] {
    ProfileTable.all.compactMap { table in
      let apps = catalog.apps.filter { $0.customer == .user && $0.writeTo.contains(table.mirror) }
      let bundleIDs = Set(apps.map(\.bundleID))
      let users = Set(changes.lazy.filter { bundleIDs.contains($0.bundleID) }.compactMap(\.customer.userID))
      // Sorted: rows are locked in the order in which they are written.
      return users.isEmpty ? nil : (table, apps, users.sorted())
    }
  }

  /// The strongest status among the apps that write to one place.
  private func status(
    of user: UUID, _ holdings: CustomerHoldings, in apps: [App], at instant: Date
  ) -> PremiumStatus {
    apps.map { app in
      // What stands on a profile was bought or given; free time is for all, and passes.
      let own = holdings.holdings(of: app, for: .user(user), freeTime: .never)
      let entitlements = app.entitlements(of: own, for: .user(user), at: instant)
      return PremiumStatus(entitlements, at: instant)
    }
    .reduce(PremiumStatus.free) { best, status in status.isStronger(than: best) ? status : best }
  }

  /// All at once; where that is refused, each alone, so that one user's trouble stays one user's.
  /// - Parameter unwritten: to commit as well, the users whom other tables did not take.
  private func write(
    _ writes: [ProfileWrite], to table: ProfileTable, _ connection: PostgresConnection,
    ahead: Result<SavepointAttempt, PostgresError>? = nil, after unwritten: Set<UUID>? = nil
  ) async throws -> Set<UUID> {
    do {
      return try await attempt(writes, table, connection, ahead: ahead?.get(), after: unwritten)
    } catch let error as PostgresError where error.isRefusal {
      // What took too long once is not tried user by user while others wait.
      if writes.count == 1 || error.isTimeUp {
        logger.warning(
          "a premium status could not be written and will be tried again",
          metadata: ["table": "\(table.mirror.rawValue)", "sqlstate": "\(error.sqlState ?? "")"])
        return Set(writes.map(\.userID))
      }
      var unwritten: Set<UUID> = []
      for write in writes { unwritten.formUnion(try await self.write([write], to: table, connection)) }
      return unwritten
    }
  }

  private func attempt(
    _ writes: [ProfileWrite], _ table: ProfileTable, _ connection: PostgresConnection,
    ahead: SavepointAttempt?, after unwritten: Set<UUID>?
  ) async throws -> Set<UUID> {
    try await connection.savepoint(continuing: ahead) { connection in
      let rows =
        if let ahead { ahead.rows } else {
          try await connection.pipeline([Self.limits, table.select(writes.map(\.userID))])
        }
      var free: Set<UUID> = []
      var held: Set<UUID> = []
      for row in rows[1] {
        let user = try row.decode(0, as: UUID.self)
        if try row.decode(1, as: Bool.self) { free.insert(user) } else { held.insert(user) }
      }
      // A user without a row is free already: nothing to say to nobody.
      let missing = writes.filter {
        !free.contains($0.userID) && !held.contains($0.userID) && $0.status.productID != nil
      }
      let known = writes.filter { free.contains($0.userID) }
      var changes: [Query] = []
      if !known.isEmpty { changes.append(table.update(known)) }
      if !missing.isEmpty { changes.append(table.insert(missing)) }
      // A deferred constraint would otherwise speak up at COMMIT, when it is too late to save the facts.
      // The commit may wait for a standby, which is not the app's tables' time.
      changes += ["SET CONSTRAINTS ALL IMMEDIATE", "SET LOCAL statement_timeout = DEFAULT"]
      let waiting = unwritten?.union(held)
      if waiting?.isEmpty != true { changes.append("SET LOCAL lock_timeout = DEFAULT") }
      if let waiting {
        _ = try await connection.commit(after: changes + (waiting.isEmpty ? [] : [outbox(waiting)]))
      } else {
        _ = try await connection.pipeline(changes)
      }
      return held
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
  /// The server is there and says no. Inside of a savepoint that is the app's own table speaking, whatever
  /// word it chose (a trigger may raise any SQLSTATE), unless the session itself was ended.
  var isRefusal: Bool {
    if case .server = kind { !endedTransaction && !endedSession } else { false }
  }

  /// A lock or a statement took longer than it may (55P03, 57014).
  var isTimeUp: Bool { sqlState == "55P03" || sqlState == "57014" }
}

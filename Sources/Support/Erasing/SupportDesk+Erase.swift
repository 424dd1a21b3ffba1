import Actions
import Authentication
import Configuration
import Customers
import Foundation
import Identifiers
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Erases a customer: the id is replaced by a random one, and everything that leads to the person goes. Money and
/// counts stay. ``CustomerTable`` has the rule of each table.
///
/// What the App Store sends of the purchases later counts, and brings neither an id nor a token back. A signed
/// transaction of the same purchase, from any customer, gives it an owner again. Notifications of purchases that
/// another customer has stay as signed, also those that wait: without them a refund would be lost.
package struct EraseCustomerRequest: SupportRequest {
  package static let operation = SupportOperation.eraseCustomer

  /// A user's UUID or a device's id.
  var customer: String
  /// The app; needed if the id is a customer of several apps. Then only rows of this app change.
  var bundleID: String?
  /// Whether to erase although a subscription goes on at the App Store, or although the configuration lacks a destination
  /// that was told of the customer.
  var force: Bool?

  package init(customer: String, bundleID: String? = nil, force: Bool? = nil) {
    self.customer = customer
    self.bundleID = bundleID
    self.force = force
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> ErasureReport {
    try await desk.eraseCustomer(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func eraseCustomer(
    _ request: EraseCustomerRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> ErasureReport {
    let customer = try await knownCustomer(request.customer, of: request.bundleID)
    guard !author.reason.hasWord(customer.id) else {
      throw SupportRefusal.invalid("The reason stays in the record, so it must not have the customer's id.")
    }
    try await pool.withConnection { try await checkNotErased(customer.id, $0) }
    return ErasureReport(
      try await erase(customer, by: author, isForced: request.force ?? false, isDryRun: isDryRun),
      isDryRun: isDryRun)
  }

  /// - Throws: ``SupportRefusal`` for the random id of a customer that was erased.
  func checkNotErased(_ id: String, _ connection: PostgresConnection) async throws {
    guard try await connection.query(ErasureRows.erasure(of: id)).isEmpty else {
      throw SupportRefusal.alreadyDone("\(id) is the pseudonym of a customer that was erased.")
    }
  }

  /// What was erased of one customer, and what stays elsewhere.
  struct Erasure {
    let customer: ErasedCustomer
    /// The number of changed rows by table.
    var counts: [String: Int]
    /// The number of rows of other customers that lost the id, and only the id.
    var rowsOfOthers: Int
    /// The number of other customers' pairings with the device, which ended.
    var pairingsOfOthers: Int
    /// The number of notifications of other customers' purchases that stay with the user's UUID.
    var notificationsOfOthers: Int
    /// What speaks against the erasure.
    var obstacles: Obstacles
    /// Whether the user is still in `auth.users`.
    var hasSignUp: Bool
  }

  private func erase(
    _ customer: ErasedCustomer, by author: SupportAuthor, isForced: Bool, isDryRun: Bool
  ) async throws -> Erasure {
    let ignoresObstacles = isForced || isDryRun
    var ended = EarlierChanges()
    for _ in 0..<5 {
      let customer = customer.after(ended.keptOut)
      // Outside of the transaction, because the purchases' locks come before the customer's.
      let known = try await pool.withConnection { connection in
        let current = try await found(customer, connection)
        _ = try await obstacles(to: current, areAllowed: ignoresObstacles, connection)
        return current
      }
      if isDryRun {
        ended = EarlierChanges(foretelling: known, events: try await countEvents(of: known))
      } else {
        try await end(known, &ended)
        try await eraseEvents(of: known, &ended)
      }
      do {
        let part = known.inOneTransaction(isDryRun: isDryRun).after(ended.keptOut)
        return try await customerTransactions.run(
          locking: part.customerLocks, purchases: Set(part.purchaseLocks), isDryRun: isDryRun,
          part.lockAlone
        ) { connection, answers in
          let locked = try await lock(part, answers, connection)
          let obstacles = try await obstacles(to: locked, areAllowed: ignoresObstacles, connection)
          let erasure = try await erase(locked, despite: obstacles, after: ended, by: author, on: connection)
          guard !erasure.counts.isEmpty || erasure.pairingsOfOthers + erasure.rowsOfOthers > 0 else {
            throw SupportRefusal.notFound(nothing(of: erasure))
          }
          return erasure
        }
      } catch is NewPurchase {
        continue
      } catch let error as PostgresError where error.isRetryable {
        // Two erasures of customers that the record of each other names.
        continue
      }
    }
    throw ServiceError.databaseUnavailable
  }

  /// What was done about waiting notifications and events before the transaction of the erasure.
  private struct EarlierChanges {
    /// The number of changed rows by table.
    var counts: [String: Int] = [:]
    /// The notifications of other customers' purchases, which stay.
    var kept: [UUID] = []
    /// See ``ErasedCustomer/keptOut``.
    var keptOut: Set<String> = []

    init() {}

    /// What ``SupportDesk/end(_:_:)`` and ``SupportDesk/eraseEvents(of:_:)`` would do.
    /// - Parameter events: the number of the customer's events.
    init(foretelling known: ErasedCustomer, events: Int) {
      count("events", max(0, events - ErasedCustomer.eventBatch))
      count("notifications", known.foreign.count)
      for batch in known.batches {
        count("subscriptions", batch.after(keptOut).newWaitingPurchases.count)
        count("notifications", batch.endedNotifications.count)
        keep(batch)
      }
    }

    mutating func keep(_ batch: ErasedCustomer) {
      kept += batch.keptNotifications
      keptOut.formUnion(batch.waitingPurchases)
    }

    mutating func count(_ table: String, _ rows: Int) {
      if rows > 0 { counts[table, default: 0] += rows }
    }
  }

  /// Ends the waiting notifications that are too many for the transaction of the erasure, in transactions of their own.
  /// If the erasure fails after it, a repetition ends the others.
  ///
  /// Notifications of apps that were never configured take no lock and leave no row in `subscriptions`: nothing
  /// processes them.
  private func end(_ known: ErasedCustomer, _ ended: inout EarlierChanges) async throws {
    for batch in known.foreign.chunked(by: ErasedCustomer.batchSize) {
      let rows = try await pool.query(ImpersonalFacts.waitingNotifications(batch, at: known.instant))
      ended.count("notifications", Int(rows.affected))
    }
    for next in known.batches {
      let batch = next.after(ended.keptOut)
      let (current, answers) = try await customerTransactions.run(
        locking: [], purchases: Set(batch.waiting.flatMap(\.locks)), batch.lockAlone
      ) { connection, locked in
        guard let stillWaiting = locked.last else { throw ServiceError.internalError }
        let waiting = try batch.with(stillWaiting: stillWaiting)
        let current = try waiting.with(others: await connection.query(waiting.findOthersPurchases))
        let answers = try await connection.pipeline([
          CustomerTable.keepOut(current),
          ImpersonalFacts.waitingNotifications(current.endedNotifications, at: current.instant),
          ImpersonalFacts.forwards([], or: current.endedNotifications),
        ])
        return (current, answers)
      }
      for (table, rows) in zip(["subscriptions", "notifications", "outbox"], answers) {
        ended.count(table, Int(rows.affected))
      }
      ended.keep(current)
    }
  }

  /// Erases events that are too many for the transaction of the erasure, in transactions of their own. That one erases
  /// those that come meanwhile.
  private func eraseEvents(of customer: ErasedCustomer, _ ended: inout EarlierChanges) async throws {
    guard try await countEvents(of: customer) > ErasedCustomer.eventBatch else { return }
    for bundleID in customer.appIDs {
      var last: UUID?
      repeat {
        let page = CustomerEventRows.erasePage(of: customer, in: bundleID, after: last)
        let answers = try await pool.withConnection { connection in
          try await connection.pipeline([LookupPlans.useIndexScans, page], timeout: ErasedCustomer.timeout)
        }
        ended.count("events", try answers[1][0].decode("events"))
        last = try answers[1][0].decode("last")
      } while last != nil
    }
  }

  private func countEvents(of customer: ErasedCustomer) async throws -> Int {
    try await pool.withConnection { connection in
      let rows = try await connection.query(
        CustomerEventRows.count(of: customer), timeout: ErasedCustomer.timeout)
      return try rows[0].decode("events", as: Int.self)
    }
  }

  /// Reads what the locked transaction erases.
  /// - Parameter answers: those of ``ErasedCustomer/lockAlone``.
  /// - Returns: the customer as it is now: another erasure may have been faster.
  /// - Throws: ``NewPurchase``.
  private func lock(
    _ known: ErasedCustomer, _ answers: ArraySlice<Rows>, _ connection: PostgresConnection
  ) async throws -> ErasedCustomer {
    guard let stillWaiting = answers.last else { throw ServiceError.internalError }
    let purchases = try await connection.query(known.findPurchases, timeout: ErasedCustomer.timeout)
    let current = try known.with(purchases).with(stillWaiting: stillWaiting)
      .with(trialLocks: await connection.query(known.findTrialLocks))
    guard known.locks(current) else { throw NewPurchase() }
    return try current.with(others: await connection.query(current.findOthersPurchases))
  }

  /// Another purchase or trial of the customer arrived since they were read.
  private struct NewPurchase: Error {}

  /// Why there is nothing to erase.
  private func nothing(of erasure: Erasure) -> String {
    "receiptd has no record of the \(erasure.customer.customer.kindWord) \(erasure.customer.id)."
      + (erasure.hasSignUp ? " The sign-up is still in auth.users: delete it there." : "")
  }

  /// The premium values of the user's row in each of the app's own tables, by the table's name.
  private func profileValues(
    of user: UUID, _ connection: PostgresConnection
  ) async throws -> [String: String] {
    let answers = try await connection.pipeline(ProfileTable.all.map { $0.values([user]) })
    var values: [String: String] = [:]
    for (table, rows) in zip(ProfileTable.all, answers) {
      values[table.destination.rawValue] = try rows.first?.decode("values", as: String.self)
    }
    return values
  }

  /// Tells destinations of other customers' devices: of the children, which have what they have by themselves from now
  /// on, and of children of the same parents that are active now. The row of one with nothing on record is deleted once
  /// it is delivered.
  private func tell(
    _ children: [CustomerChange], and siblings: [ChildStates], of customer: ErasedCustomer,
    on connection: PostgresConnection
  ) async throws {
    var changes = children
    for states in siblings {
      changes += try await connection.changedChildren(since: states, at: customer.instant)
    }
    changes.removeAll { $0.customer == customer.customer }
    if let events = CustomerChanges.enqueue(changes, in: catalog, endsPairing: true, at: customer.instant) {
      _ = try await connection.query(events)
    }
  }

  /// The states of the children of the device's parents, and of those that share its plan.
  private func siblings(
    of customer: ErasedCustomer, _ connection: PostgresConnection
  ) async throws -> [ChildStates] {
    guard customer.device != nil else { return [] }
    var parents: [String: [String]] = [:]
    for row in try await connection.query(customer.findParents) {
      parents[try row.decode("bundle_id"), default: []].append(try row.decode("device_id"))
    }
    var siblings: [ChildStates] = []
    for (bundleID, devices) in parents.sorted(by: { $0.key < $1.key }) {
      guard let app = catalog[bundleID] else { continue }
      if let states = try await connection.childStates(of: devices, in: app, at: customer.instant) {
        siblings.append(states)
      }
    }
    return siblings
  }

  private func hasSignUp(_ customer: ErasedCustomer, _ connection: PostgresConnection) async throws -> Bool {
    guard let user = customer.user, try await UserDirectory.canRead("id", connection) else { return false }
    return try await UserDirectory.has(user, connection)
  }

  /// What speaks against an erasure. `--force` allows it all the same.
  struct Obstacles {
    /// The customer's own subscriptions that the App Store may charge again or that are paid for.
    let running: [String]
    /// The destinations that were told of the customer, and that this process's configuration lacks.
    let unreachable: [OutboxDestination]
  }

  /// - Throws: ``SupportRefusal`` if there are any and the erasure does not allow them.
  private func obstacles(
    to customer: ErasedCustomer, areAllowed: Bool, _ connection: PostgresConnection
  ) async throws -> Obstacles {
    let answers = try await connection.pipeline([
      SubscriptionRows.select(customer.purchases), ErasureRows.toldDestinations(of: customer),
    ])
    let running = try answers[0].map(SubscriptionRows.decode)
      .filter { stored in
        let subscription = stored.subscription
        return subscription.current.ownership == "PURCHASED" && subscription.current.expiresDate != nil
          && [.active, .billingGrace, .billingRetry].contains(
            subscription.phase(at: customer.instant).storeStatus)
      }
      .map(\.originalTransactionID)
    let configured = catalog.apps.flatMap(\.erasureDestinations)
    let unreachable = try answers[1].compactMap { row -> OutboxDestination? in
      guard let kind = OutboxDestination.Kind(rawValue: try row.decode("destination")) else { return nil }
      return OutboxDestination(
        kind: kind, bundleID: try row.decode("bundle_id"), endpoint: try row.decode("endpoint"))
    }.filter { !configured.contains($0) }
    let obstacles = Obstacles(running: running, unreachable: unreachable)
    guard areAllowed || running.isEmpty && unreachable.isEmpty else {
      throw SupportRefusal.invalid(ErasureReport.warning(obstacles))
    }
    return obstacles
  }

  private func erase(
    _ customer: ErasedCustomer, despite obstacles: Obstacles, after ended: EarlierChanges,
    by author: SupportAuthor, on connection: PostgresConnection
  ) async throws -> Erasure {
    if customer.user != nil {
      // First, so that two erasures that name each other wait here, before they have locked any row.
      _ = try await connection.pipeline(SeenUserRows.lockTable, timeout: ErasedCustomer.timeout)
    }
    let hasSignUp = try await hasSignUp(customer, connection)
    let siblings = try await siblings(of: customer, connection)
    let changes = customer.appIDs.map { CustomerChange(bundleID: $0, customer: customer.customer) }
    let known = changes.filter { customer.bundleIDs.contains($0.bundleID) }
    let states = try await connection.query(customer.countStates)
    if let events = CustomerChanges.enqueue(known, in: catalog, isErased: true, at: customer.instant) {
      _ = try await connection.query(events)
    }
    let left = try await connection.query(customer.countStates)
    let accounts = try await connection.query(customer.findAccounts).map {
      try $0.decode("account", as: String.self)
    }
    let children = try await connection.query(customer.findChildren).map { row in
      CustomerChange(
        bundleID: try row.decode("bundle_id"), customer: .device(try row.decode("child_device_id")))
    }
    var counts = ended.counts
    // The other states are deleted, and counted, below.
    let replaced = try states[0].decode("states", as: Int.self) - left[0].decode("states", as: Int.self)
    if replaced > 0 { counts["outbox", default: 0] += replaced }
    var (pairingsOfOthers, places) = (0, 0)
    for table in CustomerTable.all {
      func affected(_ statements: [Query]) async throws -> [Int] {
        try await connection.pipeline(statements, timeout: ErasedCustomer.timeout).map { Int($0.affected) }
      }
      let own = try await affected(table.erase(customer)).reduce(0, +)
      if own > 0 { counts[table.name, default: 0] += own }
      var others = try await affected(table.eraseFromOthers(customer))[...]
      // The first statement on pairings ends those of other customers with the device.
      if table.name == CustomerTable.devices.name { pairingsOfOthers = others.popFirst() ?? 0 }
      places += others.reduce(0, +)
    }
    try await tell(children, and: siblings, of: customer, on: connection)
    _ = try await connection.pipeline(ImpersonalFacts.accounts(accounts), timeout: ErasedCustomer.timeout)
    if let user = customer.user {
      // The status is that of a free user, unless an app that writes to the same table knows the user too.
      let records = try await connection.customerRecords(users: [user])
      let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
      let before = try await profileValues(of: user, connection)
      _ = try await writer.write(changes, customerRecords: records, former: [user], on: connection)
      for (table, values) in try await profileValues(of: user, connection) where values != before[table] {
        counts[table, default: 0] += 1
      }
    }
    let notifications = try await connection.query(
      customer.countNotificationsOfOthers(and: ended.kept), timeout: ErasedCustomer.timeout)
    let notificationsOfOthers = try notifications[0].decode("notifications", as: Int.self)
    var recorded = counts
    if notificationsOfOthers > 0 { recorded["notificationsOfOthers"] = notificationsOfOthers }
    if pairingsOfOthers > 0 { recorded["pairingsOfOthers"] = pairingsOfOthers }
    // The function adds the rows that it changes itself.
    if places > 0 { recorded["rowsOfOthers"] = places }
    // The scans above may take minutes, and requests that name the customer may be refused meanwhile: see
    // RefusedAttemptRows.insert.
    let recordedAt = clock.now()
    let answers = try await connection.pipeline(
      [
        ErasureRows.eraseActions(of: customer, recorded, by: author, at: recordedAt),
        ErasureRows.rowsOfOthers(renamedTo: customer.pseudonym),
      ], timeout: ErasedCustomer.timeout)
    counts["support_actions"] = try answers[0][0].decode("erased", as: Int.self)
    return Erasure(
      customer: customer, counts: counts.filter { $0.value > 0 },
      rowsOfOthers: try answers[1][0].decode("rows", as: Int.self), pairingsOfOthers: pairingsOfOthers,
      notificationsOfOthers: notificationsOfOthers, obstacles: obstacles, hasSignUp: hasSignUp)
  }
}

/// Statements about the events with a customer's id. Any client may send them, and before 20261120_limits.sql in any
/// number.
private enum CustomerEventRows {
  static func count(of customer: ErasedCustomer) -> Query {
    """
    SELECT count(*) AS events FROM events
    WHERE bundle_id = ANY(\(customer.appIDs)) AND customer_id = \(customer.id)
    """
  }

  /// Erases ``ErasedCustomer/eventBatch`` events of an app, in the order of their ids. The only row has their number
  /// and the last id; `nil` for no event.
  ///
  /// Each page begins after the one before: the index still has entries of the rows that were erased.
  static func erasePage(of customer: ErasedCustomer, in bundleID: String, after last: UUID?) -> Query {
    """
    WITH page AS MATERIALIZED (
      SELECT id, ctid AS place FROM events
      WHERE bundle_id = \(bundleID) AND customer_id = \(customer.id)
        AND id > coalesce(\(last)::uuid, '00000000-0000-0000-0000-000000000000')
      ORDER BY id LIMIT \(ErasedCustomer.eventBatch) FOR UPDATE
    ), erased AS (
      UPDATE events SET customer_id = \(customer.pseudonym), properties = NULL
      WHERE ctid = ANY(ARRAY(SELECT place FROM page))
      RETURNING 1
    )
    SELECT (SELECT count(*) FROM erased) AS events, (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last
    """
  }
}

/// Statements about erasures: their records, and what speaks against them.
private enum ErasureRows {
  /// The destinations that have or get a state of the customer (`bundle_id`, `destination`, `endpoint`), unless they are
  /// told of the customer's erasure.
  static func toldDestinations(of customer: ErasedCustomer) -> Query {
    """
    SELECT DISTINCT bundle_id, destination, endpoint FROM outbox
    WHERE key = \(customer.id) AND destination IN ('cloudkit', 'webhook') AND NOT payload ? 'erased'
      AND bundle_id IS NOT NULL AND \(customer.isOfAppAndKind)
    ORDER BY 1, 2, 3
    """
  }

  /// A row if the id is a pseudonym.
  static func erasure(of id: String) -> Query {
    "SELECT id FROM support_actions WHERE action = 'erase-customer' AND to_customer = \(id) LIMIT 1"
  }

  /// The number that the record of the erasure has.
  static func rowsOfOthers(renamedTo pseudonym: String) -> Query {
    """
    SELECT coalesce((details ->> 'rowsOfOthers')::bigint, 0) AS rows FROM support_actions
    WHERE action = 'erase-customer' AND to_customer = \(pseudonym) LIMIT 1
    """
  }

  static func eraseActions(
    of customer: ErasedCustomer, _ counts: [String: Int], by author: SupportAuthor, at instant: Date
  ) -> Query {
    let details = (try? JSONEncoder().encode(counts)).map { JSONText(utf8: $0) }
    return """
      SELECT receiptd_erase_actions(\(customer.id), \(customer.customer.kindWord), \(customer.bundleIDs),
        \(customer.releasedPurchases), \(customer.pseudonym), \(author.by), \(author.actor.kind),
        \(author.actor.personID)::bigint, \(author.reason), \(details), \(instant)) AS erased
      """
  }
}

extension String {
  /// Whether the text has another text between characters that are no part of a word, in upper or lower case.
  func hasWord(_ word: String) -> Bool {
    let (text, word) = (lowercased(), word.lowercased())
    func isPart(_ character: Character) -> Bool {
      character.isLetter || character.isNumber || character == "_" || character == "-"
    }
    return text.ranges(of: word).contains { range in
      !(text[..<range.lowerBound].last.map(isPart) ?? false)
        && !(text[range.upperBound...].first.map(isPart) ?? false)
    }
  }
}

import Foundation
import Identifiers
import Postgres
import Subscriptions

extension SupportDesk {
  /// Erases a customer: the id is replaced by a random one, and everything that leads to the person goes. Money and counts
  /// stay. ``CustomerTable`` has the rule of each table.
  ///
  /// What the App Store sends of the purchases later counts, and brings neither an id nor a token back. A signed transaction
  /// of the same purchase, from any customer, gives it an owner again.
  ///
  /// - Parameters:
  ///   - id: a user's UUID or a device's id.
  ///   - isForced: whether the customer may have a subscription that goes on at the App Store.
  ///   - isDryRun: whether to change nothing and to count what would change.
  /// - Throws: ``SupportRefusal``; errors of the database.
  public func eraseCustomer(
    _ id: String, by author: SupportAuthor, isForced: Bool = false, isDryRun: Bool = false
  ) async throws -> ErasureReport {
    let customers = try await knownCustomers(id)
    for customer in customers {
      guard !author.reason.lowercased().contains(customer.id.lowercased()) else {
        throw SupportRefusal.invalid("The reason stays in the record, so it must not have the customer's id.")
      }
      guard try await pool.query(ErasureRows.erasure(of: customer.id)).isEmpty else {
        throw SupportRefusal.alreadyDone("\(customer.id) is the pseudonym of a customer that was erased.")
      }
    }
    var report = ErasureReport(isDryRun: isDryRun)
    for erasure in try await erase(customers, by: author, isForced: isForced, isDryRun: isDryRun) {
      report.add(erasure)
    }
    return report
  }

  /// What was erased of one customer, and what stays elsewhere.
  struct Erasure {
    let customer: ErasedCustomer
    /// The number of changed rows by table.
    var counts: [String: Int]
    /// The subscriptions that go on at the App Store.
    var running: [String]
    /// Whether the user is still in `auth.users`.
    var hasSignUp: Bool
  }

  /// Erases all of these customers, or none of them.
  private func erase(
    _ customers: [ErasedCustomer], by author: SupportAuthor, isForced: Bool, isDryRun: Bool
  ) async throws -> [Erasure] {
    for _ in 0..<5 {
      // Outside of the transaction, because the purchases' locks come before the customer's.
      var known: [ErasedCustomer] = []
      for customer in customers {
        known.append(try await pool.withConnection { try await found(customer, $0) })
      }
      do {
        return try await pool.withTransaction { [known] connection in
          let locked = try await lock(known, connection)
          let running = try await running(locked, connection)
          guard isForced || isDryRun || running.isEmpty else {
            throw SupportRefusal.invalid(ErasureReport.warning(running))
          }
          var erasures: [Erasure] = []
          for customer in locked { erasures.append(try await erase(customer, by: author, on: connection)) }
          guard erasures.contains(where: { !$0.counts.isEmpty }) else {
            throw SupportRefusal.notFound(nothing(of: erasures))
          }
          if isDryRun { throw DryRun(erasures: erasures) }
          return erasures
        }
      } catch is NewPurchase {
        continue
      } catch let dryRun as DryRun {
        return dryRun.erasures
      }
    }
    throw ServiceError.databaseUnavailable
  }

  /// Locks in the order of the ledger: the purchases, their notifications, the customers.
  /// - Returns: the customers as they are now: another erasure may have been faster.
  /// - Throws: ``NewPurchase``.
  private func lock(
    _ known: [ErasedCustomer], _ connection: PostgresConnection
  ) async throws -> [ErasedCustomer] {
    let answers = try await connection.pipeline([
      AdvisoryLock.acquire(.purchase, Set(known.flatMap(\.purchaseLocks))),
      """
      SELECT notification_uuid FROM notifications
      WHERE notification_uuid = ANY(\(known.flatMap(\.waiting).map(\.uuid))) AND processed_at IS NULL
      ORDER BY notification_uuid FOR UPDATE
      """,
      CustomerStatusWriter.lock(known.map(\.customer)),
    ])
    var locked: [ErasedCustomer] = []
    for customer in known {
      let purchases = try await connection.query(customer.findPurchases, timeout: .seconds(60))
      let current = try customer.with(purchases).with(stillWaiting: answers[1])
      guard Set(current.namedPurchases).isSubset(of: customer.namedPurchases) else { throw NewPurchase() }
      locked.append(current)
    }
    return locked
  }

  /// Another purchase of the customer arrived since the purchases were read.
  private struct NewPurchase: Error {}

  /// Rolls back a dry run.
  private struct DryRun: Error {
    let erasures: [Erasure]
  }

  /// Why there is nothing to erase.
  private func nothing(of erasures: [Erasure]) -> String {
    let customers = erasures.map { "\($0.customer.customer.kindWord) \($0.customer.id)" }
    let hasSignUp = erasures.contains(where: \.hasSignUp)
    return "receiptd has no record of the \(customers.joined(separator: " and "))."
      + (hasSignUp ? " The sign-up is still in auth.users: delete it there." : "")
  }

  private func hasSignUp(_ customer: ErasedCustomer, _ connection: PostgresConnection) async throws -> Bool {
    guard let user = customer.user, try await UserDirectory.canRead("id", connection) else { return false }
    return try await UserDirectory.has(user, connection)
  }

  /// The customers' own subscriptions that the App Store may charge again or that are paid for.
  private func running(
    _ customers: [ErasedCustomer], _ connection: PostgresConnection
  ) async throws -> [String] {
    guard let instant = customers.first?.instant else { return [] }
    let purchases = customers.flatMap(\.purchases)
    return try await connection.query(SubscriptionRows.select(purchases)).map(SubscriptionRows.decode)
      .filter { stored in
        let subscription = stored.subscription
        return subscription.current.ownership == "PURCHASED" && subscription.current.expiresDate != nil
          && [.active, .billingGrace, .billingRetry].contains(
            subscription.phase(at: instant).storeStatus)
      }
      .map(\.originalTransactionID)
  }

  private func erase(
    _ customer: ErasedCustomer, by author: SupportAuthor, on connection: PostgresConnection
  ) async throws -> Erasure {
    let running = try await running([customer], connection)
    let hasSignUp = try await hasSignUp(customer, connection)
    let changes = customer.appIDs.map { CustomerChange(bundleID: $0, customer: customer.customer) }
    let known = changes.filter { customer.bundleIDs.contains($0.bundleID) }
    if let events = CustomerChanges.enqueue(known, in: catalog, isErased: true, at: customer.instant) {
      _ = try await connection.query(events)
    }
    let accounts = try await connection.query(customer.findAccounts).map {
      try $0.decode("account", as: String.self)
    }
    var counts: [String: Int] = [:]
    for table in CustomerTable.all {
      let answers = try await connection.pipeline(table.erase(customer))
      let affected = answers.reduce(0) { $0 + Int($1.affected) }
      if affected > 0 { counts[table.name] = affected }
    }
    _ = try await connection.pipeline(ImpersonalFacts.accounts(accounts))
    if let user = customer.user {
      // The customer has no record any more, so the status is that of a free user.
      let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
      _ = try await writer.write(
        changes, customerRecords: RecordsByCustomer(), former: [user], on: connection)
    }
    // The scans above may take minutes, and requests that name the customer may be refused meanwhile: see
    // RefusedAttemptRows.insert.
    let recordedAt = clock.now()
    let actions = try await connection.query(
      ErasureRows.eraseActions(of: customer, counts, by: author, at: recordedAt))[0]
    counts["support_actions"] = try actions.decode("erased", as: Int.self)
    return Erasure(
      customer: customer, counts: counts.filter { $0.value > 0 }, running: running, hasSignUp: hasSignUp)
  }
}

/// Statements about the records of erasures.
private enum ErasureRows {
  /// A row if the id is a pseudonym.
  static func erasure(of id: String) -> Query {
    "SELECT id FROM support_actions WHERE action = 'erase-customer' AND to_customer = \(id) LIMIT 1"
  }

  static func eraseActions(
    of customer: ErasedCustomer, _ counts: [String: Int], by author: SupportAuthor, at instant: Date
  ) -> Query {
    let details = (try? JSONEncoder().encode(counts)).map { JSONText(utf8: $0) }
    return """
      SELECT receiptd_erase_actions(\(customer.id), \(customer.customer.kindWord), \(customer.bundleIDs),
        \(customer.purchases), \(customer.pseudonym), \(author.by), \(author.actor.kind),
        \(author.actor.personID)::bigint, \(author.reason), \(details), \(instant)) AS erased
      """
  }
}

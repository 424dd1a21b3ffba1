import Foundation
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
    let customers = try await customersToErase(id)
    var report = ErasureReport(isDryRun: isDryRun)
    for customer in customers {
      guard !author.reason.lowercased().contains(customer.id.lowercased()) else {
        throw SupportRefusal.invalid("The reason stays in the record, so it must not have the customer's id.")
      }
      guard try await pool.query(ErasureRows.erasure(of: customer.id)).isEmpty else {
        throw SupportRefusal.alreadyDone("\(customer.id) is the pseudonym of a customer that was erased.")
      }
      report.add(try await erase(customer, by: author, isForced: isForced, isDryRun: isDryRun), of: customer)
    }
    return report
  }

  /// What was erased of one customer, and what stays elsewhere.
  struct Erasure {
    /// The number of changed rows by table.
    var counts: [String: Int]
    /// The subscriptions that go on at the App Store.
    var running: [String]
    /// Whether the user is still in `auth.users`.
    var hasSignUp: Bool
  }

  private func erase(
    _ customer: ErasedCustomer, by author: SupportAuthor, isForced: Bool, isDryRun: Bool
  ) async throws -> Erasure {
    for _ in 0..<5 {
      // Outside of the transaction, because the purchases' locks come before the customer's.
      let known = try customer.with(await pool.query(customer.findPurchases))
      do {
        return try await pool.withTransaction { connection in
          _ = try await connection.pipeline([
            AdvisoryLock.acquire(.purchase, Set(known.namedPurchases)),
            CustomerStatusWriter.lock([customer.customer]),
          ])
          let locked = try customer.with(await connection.query(customer.findPurchases))
          guard Set(locked.namedPurchases).isSubset(of: known.namedPurchases) else { throw NewPurchase() }
          let running = try await running(locked, connection)
          guard isForced || isDryRun || running.isEmpty else {
            throw SupportRefusal.invalid(ErasureReport.warning(running))
          }
          let hasSignUp = try await hasSignUp(customer, connection)
          let counts = try await erase(locked, by: author, hasSignUp: hasSignUp, on: connection)
          let erasure = Erasure(counts: counts, running: running, hasSignUp: hasSignUp)
          if isDryRun { throw DryRun(erasure: erasure) }
          return erasure
        }
      } catch is NewPurchase {
        continue
      } catch let dryRun as DryRun {
        return dryRun.erasure
      }
    }
    throw ServiceError.databaseUnavailable
  }

  /// Another purchase of the customer arrived since the purchases were read.
  private struct NewPurchase: Error {}

  /// Rolls back a dry run.
  private struct DryRun: Error {
    let erasure: Erasure
  }

  private func hasSignUp(_ customer: ErasedCustomer, _ connection: PostgresConnection) async throws -> Bool {
    guard let user = customer.user, try await UserDirectory.canRead("id", connection) else { return false }
    return try await UserDirectory.has(user, connection)
  }

  /// The customer's own subscriptions that the App Store may charge again or that are paid for.
  private func running(
    _ customer: ErasedCustomer, _ connection: PostgresConnection
  ) async throws -> [String] {
    try await connection.query(SubscriptionRows.select(customer.purchases)).map(SubscriptionRows.decode)
      .filter { stored in
        let subscription = stored.subscription
        return subscription.current.ownership == "PURCHASED" && subscription.current.expiresDate != nil
          && [.active, .billingGrace, .billingRetry].contains(
            subscription.phase(at: customer.instant).storeStatus)
      }
      .map(\.originalTransactionID)
  }

  private func erase(
    _ customer: ErasedCustomer, by author: SupportAuthor, hasSignUp: Bool, on connection: PostgresConnection
  ) async throws -> [String: Int] {
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
    guard !counts.isEmpty || !hasSignUp else {
      throw SupportRefusal.notFound(
        "receiptd has no record of the user \(customer.id). The sign-up is still in auth.users: delete it there."
      )
    }
    _ = try await connection.pipeline(ImpersonalFacts.accounts(accounts))
    if let user = customer.user {
      // The customer has no record any more, so the status is that of a free user.
      let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
      _ = try await writer.write(
        changes, customerRecords: RecordsByCustomer(), former: [user], on: connection)
    }
    let actions = try await connection.query(ErasureRows.eraseActions(of: customer, counts, by: author))[0]
    counts["support_actions"] = try actions.decode("erased", as: Int.self)
    return counts.filter { $0.value > 0 }
  }
}

/// Statements about the records of erasures.
private enum ErasureRows {
  /// A row if the id is a pseudonym.
  static func erasure(of id: String) -> Query {
    "SELECT id FROM support_actions WHERE action = 'erase-customer' AND to_customer = \(id) LIMIT 1"
  }

  static func eraseActions(
    of customer: ErasedCustomer, _ counts: [String: Int], by author: SupportAuthor
  ) -> Query {
    let details = (try? JSONEncoder().encode(counts)).map { JSONText(utf8: $0) }
    return """
      SELECT receiptd_erase_actions(\(customer.id), \(customer.customer.kindWord), \(customer.bundleIDs),
        \(customer.purchases), \(customer.pseudonym), \(author.by), \(author.actor.kind),
        \(author.actor.personID)::bigint, \(author.reason), \(details), \(customer.instant)) AS erased
      """
  }
}

import AppStore
import Configuration
import Foundation
import JSON
import Postgres
import Subscriptions
import Work

/// Grants a tier without end to users who had the app before a date: one grant per user and per Apple Account, to the
/// first user who proves it. A grant that support revoked is not made again.
struct Grandfathering: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let transactions: CustomerTransactions
  let statusWriter: CustomerStatusWriter
  let clock: ServiceClock

  /// Grants the tier to a user whose app transaction is old enough.
  ///
  /// - Parameter transaction: verified, and of the app. Without an `appTransactionId` there is no grant: the transaction
  ///   could not be bound to an account, and any number of users could send it.
  func award(for transaction: AppTransaction, of app: App, to user: UUID) async throws {
    guard let rule = app.grandfather, let account = transaction.appTransactionId?.storable,
      rule.includes(transaction),
      // In the sandbox the purchase date is always in 2013.
      transaction.receiptType == .production || app.sandboxGrants.include(.user(user), at: clock.now())
    else { return }
    // Apps send this at every launch, so check before opening a transaction.
    let environment: StoreEnvironment = transaction.receiptType == .production ? .production : .sandbox
    let known = try await pool.query(
      GrandfatherRows.known(user, account: account, in: environment, bundleID: app.bundleID))
    guard try !known.contains(where: { try $0.decode("app_transaction_id", as: String?.self) != nil }) else {
      return
    }
    let instant = clock.now()
    let author = SupportAuthor.grandfather(before: rule.before.rfc3339)
    try await transactions.run(
      locking: [Customer.user(user).lockName, "\(app.bundleID)/\(account)"],
      [
        GrandfatherRows.insert(
          rule, to: [user], of: app, account: account, in: environment, by: author, at: instant)
      ]
    ) { connection, answers in
      let awarded = try await record(answers.first, rule, of: app, by: author, at: instant, on: connection)
      if awarded == 0 {
        // The user may have the grant by the date of a row; then bind it to the account.
        _ = try await connection.query(
          GrandfatherRows.bind(user, to: account, in: environment, bundleID: app.bundleID))
      }
    }
  }

  /// Grants the tier in production to those of these users who have no grant yet.
  /// - Returns: the number of new grants.
  func award(_ rule: Grandfather, of app: App, to users: [UUID]) async throws -> Int {
    let instant = clock.now()
    let author = SupportAuthor.grandfather(before: rule.before.rfc3339)
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        AdvisoryLock.acquire(.customer, Set(users.map(\.uuidString))),
        GrandfatherRows.insert(
          rule, to: users, of: app, account: nil, in: .production, by: author, at: instant),
      ])
      return try await record(answers.last, rule, of: app, by: author, at: instant, on: connection)
    }
  }

  /// Writes support's record and the users' status for new grants.
  /// - Parameter granted: the rows of ``GrandfatherRows/insert(_:to:of:account:in:by:at:)``.
  /// - Returns: the number of new grants.
  private func record(
    _ granted: Rows?, _ rule: Grandfather, of app: App, by author: SupportAuthor, at instant: Date,
    on connection: PostgresConnection
  ) async throws -> Int {
    let awarded =
      try granted.map { rows in
        try rows.map {
          (user: try $0.decode("user_id", as: UUID.self), grant: try $0.decode("id", as: UUID.self))
        }
      } ?? []
    guard !awarded.isEmpty else { return 0 }
    let actions = awarded.map { award in
      SupportAction(
        name: "grandfather", bundleID: app.bundleID, to: .user(award.user),
        details: [
          "grant": .string(award.grant.uuidString.lowercased()), "tier": .string(rule.tier),
        ])
    }
    _ = try await connection.query(SupportActionRows.insert(actions, by: author, at: instant))
    try await statusWriter.write(
      awarded.map { .user($0.user) }, of: app.bundleID, at: instant, on: connection)
    return awarded.count
  }
}

extension Grandfather {
  /// Whether the app was downloaded or preordered before the date.
  fileprivate func includes(_ transaction: AppTransaction) -> Bool {
    [transaction.originalPurchaseDate, transaction.preorderDate].compactMap(\.self)
      .contains { $0 < before }
  }
}

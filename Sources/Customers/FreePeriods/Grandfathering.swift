import Actions
import AppStore
import Configuration
import Foundation
import JSON
import Postgres
import Subscriptions
import Text
import Work

/// Grants a tier without end to users who had the app before a date: one grant per user and per Apple Account, to the
/// first user who proves it. A grant that support revoked is not made again.
package struct Grandfathering: Sendable {
  let pool: PostgresPool
  let transactions: CustomerTransactions
  let statusWriter: CustomerStatusWriter
  let clock: ServiceClock

  package init(
    pool: PostgresPool, transactions: CustomerTransactions, statusWriter: CustomerStatusWriter,
    clock: ServiceClock
  ) {
    self.pool = pool
    self.transactions = transactions
    self.statusWriter = statusWriter
    self.clock = clock
  }

  /// Grants the tier to a user whose app transaction is old enough.
  ///
  /// - Parameter transaction: verified, and of the app. Without an `appTransactionId` there is no grant: the
  ///   transaction could not be bound to an account, and any number of users could send it.
  package func award(for transaction: AppTransaction, of app: App, to user: UUID) async throws {
    guard let rule = app.grandfather, let account = transaction.appTransactionId?.storable,
      rule.includes(transaction),
      // In the sandbox the purchase date is always in 2013.
      transaction.receiptType == .production || app.sandboxGrants.include(.user(user), at: clock.now())
    else { return }
    // Apps send this at every launch, so check before opening a transaction.
    let environment = StoreEnvironment(rawValue: transaction.receiptType.rawValue) ?? .sandbox
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
  /// - Returns: the number of new grants, and the users whose lock another transaction holds.
  package func award(
    _ rule: Grandfather, of app: App, to users: [UUID]
  ) async throws -> (sum: Int, locked: [UUID]) {
    let instant = clock.now()
    let author = SupportAuthor.grandfather(before: rule.before.rfc3339)
    return try await LockedGroups.run(users) { users in
      try await pool.withTransaction { connection in
        let answers = try await connection.pipeline([
          CustomerStatusWriter.lock(users.map { Customer.user($0) }, timeout: LockedGroups.lockTimeout),
          GrandfatherRows.insert(
            rule, to: users, of: app, account: nil, in: .production, by: author, at: instant),
        ])
        return try await record(answers.last, rule, of: app, by: author, at: instant, on: connection)
      }
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

extension Grandfathering {
  private static let batch = 200

  package func run(
    _ rule: Grandfather, of app: App, isDryRun: Bool
  ) async throws -> GrandfatherReport {
    var report = GrandfatherReport(bundleID: app.bundleID, before: rule.before, isDryRun: isDryRun)
    let tables = ProfileTable.all.filter { app.writeTo.contains($0.destination) }
    if tables.isEmpty {
      report.problems.append(
        "the users' sign-up dates are unknown: the app writes to neither profiles nor user_preferences; "
          + "set writeTo in the configuration")
    }
    for table in tables {
      switch try await SignUpDates.find(for: table, in: pool) {
      case .failure(let problem): report.problems.append(problem.description)
      case .success(let dates):
        report.sources.append(dates.description)
        if let query = dates.withoutUser(before: rule.before) {
          report.withoutUser += try await pool.query(query)[0].decode("rows", as: Int.self)
        }
        try await run(rule, of: app, dates, &report)
      }
    }
    if report.locked > 0 {
      report.problems.append(
        "\(report.locked) \(report.locked == 1 ? "user was" : "users were") not awarded, because another transaction holds the "
          + "user's lock; run grandfather again")
    }
    return report
  }

  private func run(
    _ rule: Grandfather, of app: App, _ dates: SignUpDates, _ report: inout GrandfatherReport
  ) async throws {
    var last: UUID?
    while true {
      let rows = try await pool.query(
        dates.users(before: rule.before, after: last, bundleID: app.bundleID, limit: Self.batch))
      let users = try rows.map {
        (id: try $0.decode("user_id", as: UUID.self), hasGrant: try $0.decode("has_grant", as: Bool.self))
      }
      report.found += users.count
      let without = users.filter { !$0.hasGrant }.map(\.id)
      if report.isDryRun {
        report.awarded += without.count
      } else {
        let (awarded, locked) = try await award(rule, of: app, to: without)
        report.awarded += awarded
        report.locked += locked.count
      }
      guard users.count == Self.batch else { return }
      last = users.last?.id
    }
  }
}

/// The result of one `receiptd grandfather` run for one app.
package struct GrandfatherReport: Sendable, Hashable, CustomStringConvertible {
  package var bundleID: String
  package var before: Date
  /// The columns with the users' sign-up dates; empty if there are none.
  package var sources: [String] = []
  /// Users who signed up before the date.
  package var found = 0
  /// Those of them without a grant until now.
  package var awarded = 0
  /// Users who were left out, because another transaction holds their lock.
  package var locked = 0
  /// Rows from before the date whose user is not in `auth.users`, if that table is read.
  var withoutUser = 0
  package var isDryRun: Bool
  /// Why the dates of a table cannot be read.
  package internal(set) var problems: [String] = []

  /// One line with the counts, and one line per problem.
  package var description: String {
    let verb = isDryRun ? "would be awarded" : "awarded"
    let counts =
      "\(bundleID): \(found) users from before \(before.rfc3339) (\(sources.joined(separator: ", "))), "
      + "\(found - awarded - locked) had it already, \(awarded) \(verb)"
      + (withoutUser == 0
        ? ""
        : "; \(withoutUser) \(withoutUser == 1 ? "row" : "rows") from before \(withoutUser == 1 ? "has" : "have") no user in auth.users")
    return ((sources.isEmpty ? [] : [counts]) + problems.map { "\(bundleID): \($0)" })
      .joined(separator: "\n")
  }
}

/// Statements on grandfather grants in the table `grants`.
enum GrandfatherRows {
  /// The accounts (or NULL) of the grants to this user or account.
  static func known(
    _ user: UUID, account: String, in environment: StoreEnvironment, bundleID: String
  ) -> Query {
    """
    SELECT app_transaction_id FROM grants
    WHERE bundle_id = \(bundleID) AND granted_by = 'grandfather' AND user_id = \(user)
      AND environment = \(environment.rawValue)
    UNION ALL
    SELECT app_transaction_id FROM grants
    WHERE bundle_id = \(bundleID) AND app_transaction_id IN (\(account), receiptd_erased_account(\(account)))
      AND environment = \(environment.rawValue)
    """
  }

  /// Returns the user and the id of each new grant.
  static func insert(
    _ rule: Grandfather, to users: [UUID], of app: App, account: String?, in environment: StoreEnvironment,
    by author: SupportAuthor, at instant: Date
  ) -> Query {
    """
    INSERT INTO grants (bundle_id, user_id, tier, starts_at, reason, granted_by, created_at,
      followed_until, app_transaction_id, environment)
    SELECT \(app.bundleID)::text, award.user_id, \(rule.tier)::text, \(instant)::timestamptz,
      \(author.reason)::text, \(author.by)::text, \(instant)::timestamptz, \(instant)::timestamptz,
      \(account)::text, \(environment.rawValue)::text
    FROM unnest(\(users)::uuid[]) AS award (user_id)
    ON CONFLICT DO NOTHING RETURNING user_id, id
    """
  }

  static func bind(
    _ user: UUID, to account: String, in environment: StoreEnvironment, bundleID: String
  ) -> Query {
    """
    UPDATE grants SET app_transaction_id = \(account)
    WHERE bundle_id = \(bundleID) AND user_id = \(user) AND granted_by = 'grandfather'
      AND environment = \(environment.rawValue) AND app_transaction_id IS NULL AND NOT EXISTS (
        SELECT FROM grants WHERE bundle_id = \(bundleID) AND app_transaction_id = \(account)
          AND environment = \(environment.rawValue))
    """
  }
}

extension SupportAuthor {
  /// The author of grandfather grants.
  fileprivate static func grandfather(before date: String) -> SupportAuthor {
    SupportAuthor(rule: GrantRows.grandfather, reason: "had the app before \(date)")
  }
}

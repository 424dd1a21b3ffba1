import AppStore
import FoundationEssentials
import Postgres
import Subscriptions

/// Gives a tier for good to those who had the app before a date: once to a user, and once for an Apple Account, the
/// first keeps it. What support takes back is not given again.
struct Grandfathering: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let followUp: CustomerFollowUp
  let clock: ServiceClock

  /// Awards whoever shows the download of the app, if it is old enough.
  ///
  /// - Parameter transaction: verified, and of the app. Without an `appTransactionId` it cannot be bound to an
  ///   account, and one download would serve everybody: then there is no award.
  func award(for transaction: AppTransaction, of app: App, to user: UUID) async throws {
    guard let rule = app.grandfather, let account = transaction.appTransactionId?.storable,
      rule.includes(transaction),
      // In the sandbox the date of the download is always one of long ago.
      transaction.receiptType == .production || app.sandboxGrants.include(.user(user))
    else { return }
    // Apps send this at every start; most of the time there is nothing to do.
    let environment: StoreEnvironment = transaction.receiptType == .production ? .production : .sandbox
    let known = try await pool.query(
      GrandfatherRows.known(user, account: account, in: environment, bundleID: app.bundleID))
    guard try !known.contains(where: { try $0.decode(0, as: String?.self) != nil }) else { return }
    _ = try await award(rule, of: app, to: [user], account: account, in: environment)
  }

  /// Awards these users what they do not have.
  /// - Parameters:
  ///   - account: the Apple Account that proves it, of one user.
  ///   - environment: the app transaction's. An award of the sandbox is for testers, and does not use up one of production.
  /// - Returns: how many got it now.
  func award(
    _ rule: Grandfather, of app: App, to users: [UUID], account: String? = nil,
    in environment: StoreEnvironment = .production
  ) async throws -> Int {
    let instant = clock.now()
    let author = SupportAuthor.grandfather(before: rule.before.inWords)
    let accounts = [account].compactMap(\.self).map { "\(app.bundleID)/\($0)" }
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        AdvisoryLock.acquire(.customer, Set(users.map(\.uuidString) + accounts)),
        GrandfatherRows.insert(
          rule, to: users, of: app, account: account, in: environment, by: author, at: instant),
      ])
      let awarded = try answers[1].map {
        (user: try $0.decode(0, as: UUID.self), grant: try $0.decode(1, as: UUID.self))
      }
      guard !awarded.isEmpty else {
        // A user who got it by the date of the row now shows the account.
        if let account, let user = users.first {
          _ = try await connection.query(
            GrandfatherRows.bind(user, to: account, in: environment, bundleID: app.bundleID))
        }
        return 0
      }
      let actions = awarded.map { award in
        SupportAction(
          name: "grandfather", bundleID: app.bundleID, to: .user(award.user),
          details: [
            "grant": .string(award.grant.uuidString.lowercased()), "tier": .string(rule.tier),
          ])
      }
      _ = try await connection.query(SupportActionRows.insert(actions, by: author, at: instant))
      try await followUp.write(
        awarded.map { .user($0.user) }, of: app.bundleID, at: instant, on: connection)
      return awarded.count
    }
  }
}

extension Grandfather {
  /// Whether the app was bought, downloaded or ordered early enough.
  fileprivate func includes(_ transaction: AppTransaction) -> Bool {
    [transaction.originalPurchaseDate, transaction.preorderDate].compactMap(\.self)
      .contains { $0 < before }
  }
}

/// The table `grants`, of this kind.
private enum GrandfatherRows {
  /// The accounts (or NULL) of the awards to this user or account.
  static func known(
    _ user: UUID, account: String, in environment: StoreEnvironment, bundleID: String
  ) -> Query {
    """
    SELECT app_transaction_id FROM grants
    WHERE bundle_id = \(bundleID) AND granted_by = 'grandfather' AND user_id = \(user)
      AND environment = \(environment.rawValue)
    UNION ALL
    SELECT app_transaction_id FROM grants
    WHERE bundle_id = \(bundleID) AND app_transaction_id = \(account)
      AND environment = \(environment.rawValue)
    """
  }

  /// - Returns: user and grant, for those who had none.
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

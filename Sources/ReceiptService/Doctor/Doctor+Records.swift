import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Proofs
import Subscriptions
import Support
import Text
import Work

extension Doctor {
  /// Checks that the headers of recent notifications exist and cannot be deleted. There is no foreign key; see the
  /// table `jws_headers` in `migrations`.
  func headers(_ pool: PostgresPool) async throws -> CheckResult {
    let row = try await pool.query(
      """
      SELECT EXISTS (
          SELECT FROM pg_trigger WHERE tgrelid = 'jws_headers'::regclass AND tgname = 'receiptd_keep_headers'
            AND tgenabled IN ('O', 'A')) AS is_protected,
        (SELECT count(*) FROM notifications
         CROSS JOIN LATERAL unnest(ARRAY[envelope_header, transaction_header, renewal_header]) AS used (id)
         WHERE received_at > now() - interval '7 days' AND used.id IS NOT NULL
           AND NOT EXISTS (SELECT FROM jws_headers WHERE jws_headers.id = used.id)) AS missing
      """)[0]
    let missing = try row.decode("missing", as: Int.self)
    if missing > 0 {
      return .fail(
        "headers", "the headers of \(missing) signed parts of the last 7 days' notifications are missing",
        "restore jws_headers from a backup; these notifications cannot be replayed without them")
    }
    if try !row.decode("is_protected", as: Bool.self) {
      return .fail(
        "headers", "can be changed and deleted",
        "ALTER TABLE jws_headers ENABLE TRIGGER receiptd_keep_headers")
    }
    return .ok("headers", "are complete and protected")
  }
}

extension Doctor {
  /// Reports notifications that could not be processed, and premium statuses that the app's own tables refused.
  func backlog(_ pool: PostgresPool) async throws -> [CheckResult] {
    [try await waitingNotifications(pool), try await unwrittenStatuses(pool)].compactMap { $0 }
  }

  private func waitingNotifications(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      SELECT outcome || ': ' || count(*) AS reason FROM notifications WHERE processed_at IS NULL
      GROUP BY outcome ORDER BY outcome
      """)
    if rows.isEmpty { return nil }
    let reasons = try rows.map { try $0.decode("reason", as: String.self) }
    return .warn(
      "notifications", "some are kept and not processed (\(reasons.joined(separator: ", ")))",
      "SELECT * FROM support_waiting_notifications")
  }

  private func unwrittenStatuses(_ pool: PostgresPool) async throws -> CheckResult? {
    let row = try await pool.query(
      """
      SELECT count(*) AS users, min(created_at) AS oldest,
        (array_agg(last_error ORDER BY id DESC) FILTER (WHERE last_error IS NOT NULL))[1] AS error
      FROM outbox WHERE destination = \(ProfileRetryRows.destination) AND done_at IS NULL AND attempts > 0
      """)[0]
    guard let oldest = try row.decode("oldest", as: Date?.self) else { return nil }
    let error = try row.decode("error", as: String?.self)
    return .warn(
      "premium status",
      "\(try row.decode("users", as: Int.self)) not written, the first since \(oldest.rfc3339)"
        + (error.map { ": \($0)" } ?? ""),
      "SELECT * FROM support_outbox WHERE destination = 'profiles' AND done_at IS NULL")
  }
}

extension Doctor {
  /// How long the App Store may take to answer, in seconds, before a purchase is reported.
  private static let answerTime = 900.0

  /// Reports purchases that give access by an old proof, and about which the App Store has not answered, or does not
  /// know them: a refund from before receiptd may be unknown.
  func oldProofs(
    _ pool: PostgresPool, _ settings: Settings, _ catalog: AppCatalog
  ) async throws -> [CheckResult] {
    let withKey = catalog.appsWithStoreKey(settings)
    var results = try await pool.query(OldProofRows.unknown).map { row -> CheckResult in
      .warn(
        "old proofs of \(try row.decode("bundle_id", as: String.self))",
        "the App Store does not know \(try row.decode("purchases", as: Int.self)) purchases of a client's old proof, and they "
          + "count. It is asked about each once a week",
        "SELECT * FROM support_subscriptions WHERE old_proof_unknown_at IS NOT NULL")
    }
    let waiting = try await pool.query(OldProofRows.waiting(before: clock.now() - Self.answerTime))
    results += try waiting.map { row -> CheckResult in
      let bundleID = try row.decode("bundle_id", as: String.self)
      let count = try row.decode("purchases", as: Int.self)
      let purchases = "\(count) purchases are known only by a client's old proof"
      guard withKey.contains(bundleID) else {
        return .warn(
          "old proofs of \(bundleID)",
          "\(purchases). Without an App Store key receiptd cannot ask whether they were refunded since",
          "set APP_STORE_KEY, APP_STORE_KEY_ID and APP_STORE_ISSUER_ID, or the app's appStore")
      }
      return .warn(
        "old proofs of \(bundleID)", "\(purchases), and the App Store has not answered for 15 minutes",
        "see the log for 'old proofs'")
    }
    return results
  }
}

extension Doctor {
  /// How old a purchase must be, in seconds. A notification may arrive before the client's first request.
  private static let leastAge = 86_400.0

  /// Reports purchases that give access to no customer, because none has proved them: those of old builds, say, where
  /// clients may not write the premium columns.
  /// - Returns: `nil` if there is none.
  func unownedPurchases(_ pool: PostgresPool) async throws -> CheckResult? {
    let now = clock.now()
    let rows = try await pool.query(
      """
      SELECT bundle_id || ': ' || count(*) AS purchases FROM subscriptions s
      WHERE user_id IS NULL AND device_id IS NULL AND erased_at IS NULL AND is_counted AND environment = 'Production'
        AND created_at < \(now - Self.leastAge)
        AND (SELECT s.phase_statuses[1 + count(*) FILTER (WHERE start <= \(now))] FROM unnest(s.phase_starts) AS p (start))
          IN ('active', 'grace')
      GROUP BY bundle_id ORDER BY bundle_id
      """)
    if rows.isEmpty { return nil }
    let purchases = try rows.map { try $0.decode("purchases", as: String.self) }
    return .ok(
      "purchases without a customer",
      "\(purchases.joined(separator: ", ")); known for a day or longer, and proved by no customer. "
        + "'Restore purchases' in the new client binds them, or receiptd transfer")
  }
}

extension Doctor {
  /// The most purchases that the message names.
  private static let maximumNamed = 5

  /// Reports purchases that several customers claim and none has proved. A renewal or refund reaches at most one of
  /// their rows.
  /// - Returns: `nil` if there is none.
  func contestedPurchases(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      WITH claims AS (
        SELECT coalesce(purchase_id, original_transaction_id) AS purchase, customer FROM adoptions
        WHERE outcome = 'claimed_twice'
        UNION
        SELECT coalesce(t.original_transaction_id, w.original_transaction_id), w.user_id::text
        FROM client_writes w LEFT JOIN transactions t ON t.transaction_id = w.original_transaction_id
        WHERE w.outcome = 'claimed_twice')
      SELECT purchase, array_agg(customer || CASE WHEN EXISTS (SELECT FROM subscriptions s
          WHERE s.original_transaction_id = purchase AND customer IN (s.user_id::text, s.device_id))
        THEN ' has it' ELSE '' END ORDER BY customer) AS customers, count(*) OVER () AS purchases
      FROM (
        SELECT purchase, customer FROM claims
        UNION
        SELECT s.original_transaction_id, coalesce(s.user_id::text, s.device_id)
        FROM subscriptions s JOIN claims c ON c.purchase = s.original_transaction_id
        WHERE s.owned_because = 'unproven_claim') AS claimants
      WHERE NOT EXISTS (SELECT FROM subscriptions s
        WHERE s.original_transaction_id = purchase AND (s.user_id IS NOT NULL OR s.device_id IS NOT NULL)
          AND s.owned_because IS DISTINCT FROM 'unproven_claim')
      GROUP BY purchase ORDER BY purchase LIMIT \(Self.maximumNamed)
      """)
    guard let first = rows.first else { return nil }
    let count = try first.decode("purchases", as: Int.self)
    var named = try rows.map { row in
      let customers = try row.decode("customers", as: [String].self)
      return "\(try row.decode("purchase", as: String.self)) (\(customers.joined(separator: ", ")))"
    }
    if count > named.count { named.append("and \(count - named.count) more") }
    return .warn(
      "contested purchases",
      "\(count) claimed by several customers and proved by none, so renewals reach at most one of their rows: "
        + named.joined(separator: "; "),
      "receiptd transfer \(try first.decode("purchase", as: String.self)) --to CUSTOMER --reason \"…\", for each"
    )
  }
}

extension Doctor {
  /// Checks that no app accepts data of Xcode beside real purchases, and reminds of those that accept it.
  func xcode(_ pool: PostgresPool, _ catalog: AppCatalog) async throws -> CheckResult? {
    let apps = catalog.apps.filter { $0.environments.contains(.xcode) }.map(\.bundleID).sorted()
    guard !apps.isEmpty else { return nil }
    do {
      try await XcodeData.check(catalog, in: pool)
    } catch let problem as ConfigurationProblem {
      return .fail("xcode", "\(problem)", "a server does not start with it; see docs/xcode.md")
    }
    return .warn(
      "xcode", "\(apps.joined(separator: ", ")) accepts what Xcode signs, for development only",
      "remove \"Xcode\" and \"xcode\" before production")
  }

  /// Checks that the configuration has the tier of every open grant.
  func grants(_ pool: PostgresPool, _ catalog: AppCatalog) async throws -> CheckResult {
    var orphans: [String] = []
    for app in catalog.apps {
      for (tier, count) in try await pool.grantsWithoutTier(in: app, at: clock.now()) {
        orphans.append("\(count) of \(app.bundleID) have the tier '\(tier)'")
      }
    }
    if orphans.isEmpty { return .ok("grants", "the configuration has the tiers of all open grants") }
    return .fail(
      "grants",
      orphans.joined(separator: ", ") + ", which is not in the configuration; these grants give no access",
      "add the tier again, or grant another tier and run receiptd revoke-grant")
  }
}

extension AppCatalog {
  /// The apps with a key for the App Store Server API, their own or that of the settings.
  func appsWithStoreKey(_ settings: Settings) -> Set<String> {
    Set(apps.filter { $0.storeKey != nil || settings.storeCredentials != nil }.map(\.bundleID))
  }
}

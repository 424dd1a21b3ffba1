import Configuration
import Customers
import Foundation
import Postgres
import Subscriptions

/// Statements on the table `adoptions`, and on the legacy tables that make claims.
enum AdoptionRows {
  /// The number of rows that one query reads.
  static let page = 1_000

  /// Which of these users wait for receiptd's status in their rows of a table (`user_id`), which therefore say
  /// something else meanwhile, and whether it replaces every claim (`is_decided`).
  static func waiting(_ users: [UUID], in table: ProfileTable) -> Query {
    """
    SELECT key::uuid AS user_id, bool_or(payload -> 'decided' ? \(table.destination.rawValue)) IS TRUE AS is_decided
    FROM outbox
    WHERE destination = \(ProfileRetryRows.destination) AND done_at IS NULL
      AND key = ANY(\(users.map { $0.uuidString.lowercased() }))
      AND (NOT payload ? 'tables' OR payload -> 'tables' ? \(table.destination.rawValue))
    GROUP BY key
    """
  }

  /// The claims of `profiles`, in the order of the users.
  ///
  /// A row that receiptd wrote after it had decided a claim of the user to another transaction is no claim. A client
  /// may have written any text, so the id is cut and has printable characters only. It may have written any time, too:
  /// `infinity`, and each time after the year 9999, is no end. Only receiptd names a grant in a row (`names_grant`): if
  /// the user has no open grant, a client wrote the row, or no server has cleared it. A row that free access opened is
  /// no claim.
  /// - Parameters:
  ///   - user: only this user, and no row that names a grant; `nil` for all.
  ///   - others: the apps that do not write to the table.
  static func profiles(
    after last: UUID? = nil, of user: UUID? = nil, others: [String], at instant: Date, limit: Int = page
  ) -> Query {
    let isOfUser: Query = user.map { "id = \($0)" } ?? "true"
    let hasNoGrant: Query =
      user != nil
      ? "false"
      : """
      NOT EXISTS (
        SELECT FROM grants g WHERE g.user_id = profiles.id AND g.bundle_id <> ALL(\(others)) AND g.revoked_at IS NULL
          AND (g.ends_at IS NULL OR g.ends_at > \(instant)))
      """
    return """
      SELECT id AS user_id, left(premium_product_id, 512) AS premium_product_id, premium_product_id LIKE 'grant:%' IS TRUE AS names_grant,
        CASE WHEN premium_expires_at < '10000-01-01' AND isfinite(premium_expires_at) THEN premium_expires_at END
          AS premium_expires_at,
        left(regexp_replace(premium_original_transaction_id, '[^ -~]', '?', 'g'), 64) AS premium_original_transaction_id
      FROM profiles
      WHERE (\(last)::uuid IS NULL OR id > \(last)::uuid) AND \(isOfUser)
        AND (premium_product_id LIKE 'grant:%' IS NOT TRUE OR \(hasNoGrant))
        AND NOT (premium_product_id IS NOT DISTINCT FROM \(FreeAccessTables.productID)
          AND EXISTS (\(FreeAccessTables.opened("profiles", "profiles.id"))))
        AND (premium_original_transaction_id <> '' OR premium_expires_at > \(instant)
          OR premium_expires_at IS NULL AND premium_product_id <> '')
        AND NOT EXISTS (
          SELECT FROM subscriptions s JOIN adoptions a ON a.bundle_id = s.bundle_id AND a.customer = profiles.id::text
          WHERE s.original_transaction_id = profiles.premium_original_transaction_id AND s.user_id = profiles.id
            AND a.original_transaction_id <> s.original_transaction_id AND a.outcome <> 'failed')
      ORDER BY id LIMIT \(limit)
      """
  }

  /// The premium users of `user_preferences`, without those whose row free access opened.
  /// - Parameter user: only this user; `nil` for all.
  static func userPreferences(after last: UUID? = nil, of user: UUID? = nil, limit: Int = page) -> Query {
    let isOfUser: Query = user.map { "user_id = \($0)" } ?? "true"
    return """
      SELECT user_id FROM user_preferences
      WHERE (\(last)::uuid IS NULL OR user_id > \(last)::uuid) AND \(isOfUser) AND is_premium
        AND NOT EXISTS (\(FreeAccessTables.opened("user_preferences", "user_preferences.user_id")))
      ORDER BY user_id LIMIT \(limit)
      """
  }

  /// The rows of `subscriptions` that receiptd has not computed: there are no facts about them.
  static func subscriptions(after last: String, limit: Int = page) -> Query {
    """
    SELECT device_id, original_transaction_id, product_id FROM subscriptions
    WHERE original_transaction_id > \(last) AND signed_at IS NULL AND device_id <> ''
    ORDER BY original_transaction_id LIMIT \(limit)
    """
  }

  /// What receiptd has decided about these users (`user_id`): whether they have access (`has_access`). No row: nothing.
  ///
  /// A row does not always say what made it premium: a purchase or a grant of any app that writes or wrote to the table
  /// may have done so. So may one that is over: a server that did not run has not cleared the row. A row of `profiles`
  /// in which an earlier run found a transaction gets no award without it: a foreign key can remove it.
  /// - Parameter modes: has the apps of the configuration.
  static func standing(
    of users: [UUID], in app: App, on table: ProfileTable, modes: ClientWriteModes, at instant: Date
  ) -> Query {
    let isOfTable = wrote("bundle_id", to: table, modes: modes)
    return """
      SELECT user_id, coalesce(bool_or(has_access), false) AS has_access FROM (
        SELECT user_id, status IN ('trial', 'active', 'grace') AS has_access FROM subscriptions
        WHERE user_id = ANY(\(users)) AND \(isOfTable) AND is_counted
        UNION ALL
        SELECT user_id, revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant)) FROM grants
        WHERE user_id = ANY(\(users)) AND \(isOfTable)
          AND (\(app.writeTo.contains(.userPreferences)) OR granted_by = 'adopt'
            OR revoked_at IS NULL AND (ends_at IS NULL OR ends_at > \(instant)))
        UNION ALL
        SELECT customer::uuid, false FROM adoptions
        WHERE bundle_id = \(app.bundleID) AND customer = ANY(\(users.map { $0.uuidString.lowercased() }))
          AND original_transaction_id <> '' AND (outcome <> ALL(\(undecided))
            OR source = \(table.destination.rawValue) AND run_id IS NOT NULL)
        UNION ALL
        SELECT user_id, false FROM client_writes
        WHERE user_id = ANY(\(users)) AND table_name = 'profiles' AND \(app.writeTo.contains(.profiles))
          AND outcome IN ('expired', 'refunded', 'another_customer', 'unknown')) AS decided
      GROUP BY user_id
      """
  }

  /// A condition: the app writes to the table, or wrote to it. An app that has left the configuration, and of which no
  /// server of this version knows the tables, may have written to any.
  /// - Parameter bundleID: the column with the app.
  private static func wrote(
    _ bundleID: StaticString, to table: ProfileTable, modes: ClientWriteModes
  ) -> Query {
    """
    (\(unescaped: bundleID) = ANY(\(modes.apps(writingTo: table).map(\.bundleID)))
      OR EXISTS (
        SELECT FROM client_write_modes m WHERE m.table_name = \(table.destination.rawValue)
          AND \(unescaped: bundleID) = ANY(m.bundle_ids || m.former_bundle_ids))
      OR \(unescaped: bundleID) <> ALL(\(modes.catalog.apps.map(\.bundleID))) AND NOT EXISTS (
        SELECT FROM client_write_modes m WHERE \(unescaped: bundleID) = ANY(m.bundle_ids || m.former_bundle_ids)))
    """
  }

  /// The outcomes that leave a claim open.
  static let undecided = ProfileTable.undecidedOutcomes

  /// Which of these users' clients wrote premium to the table after an instant of the database's clock. The row may
  /// have named a transaction then.
  static func writers(_ users: [UUID], of table: ProfileTable, after instant: Date) -> Query {
    """
    SELECT user_id FROM client_writes
    WHERE user_id = ANY(\(users)) AND table_name = \(table.destination.rawValue) AND last_at > \(instant)
      AND (is_premium OR expires_at IS NOT NULL OR product_id <> '' OR original_transaction_id <> '')
    """
  }

  /// Which of these users have a claim without a transaction that may get an award after the first adoption of the
  /// table: the app's backend wrote their row, or the first adoption wrote the claim down and could not decide it. Of
  /// any other premium row nothing is known: receiptd may have written it itself, for a customer who was erased or by
  /// an app that was not configured.
  ///
  /// The time of the note does not count: the backend's write may have been open while the first adoption read the
  /// table.
  static func backed(_ users: [UUID], of app: App, in table: ProfileTable) -> Query {
    """
    SELECT user_id FROM backend_writes
    WHERE user_id = ANY(\(users)) AND table_name = \(table.destination.rawValue)
    UNION
    SELECT customer::uuid FROM adoptions
    WHERE bundle_id = \(app.bundleID) AND customer = ANY(\(users.map { $0.uuidString.lowercased() }))
      AND original_transaction_id = '' AND outcome = ANY(\(undecided))
    """
  }

  /// The user of a claim. Claims of devices stay from a time in which the app's customers were devices.
  private static let userID: Query =
    "CASE WHEN customer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN customer::uuid END"

  /// All decisions on claims of an app, in the order of customers and transactions. A claim that ``note(_:of:at:)``
  /// wrote down ends with its user's row.
  static func decided(
    in app: App, after last: (customer: String, transactionID: String), at instant: Date, limit: Int = page
  ) -> Query {
    """
    SELECT customer, original_transaction_id, source, outcome, detail, purchase_id, run_id,
      coalesce(award.revoked_at IS NOT NULL OR award.ends_at <= \(instant), false) AS is_award_over
    FROM adoptions LEFT JOIN grants AS award ON award.id = grant_id
    WHERE adoptions.bundle_id = \(app.bundleID)
      AND (run_id IS NOT NULL OR EXISTS (SELECT FROM profiles p WHERE p.id = \(userID)))
      AND (customer, original_transaction_id) > (\(last.customer), \(last.transactionID))
    ORDER BY customer, original_transaction_id LIMIT \(limit)
    """
  }

  /// The users with a decided claim to the app, or with a purchase of it that counts.
  static func decidedUsers(of app: App, after last: UUID?, limit: Int = page) -> Query {
    """
    SELECT user_id FROM (
      SELECT \(userID) AS user_id FROM adoptions WHERE bundle_id = \(app.bundleID) AND outcome <> ALL(\(undecided))
      UNION
      SELECT user_id FROM subscriptions
      WHERE bundle_id = \(app.bundleID) AND user_id IS NOT NULL AND is_counted) AS decided
    WHERE user_id IS NOT NULL AND (\(last)::uuid IS NULL OR user_id > \(last)::uuid) ORDER BY user_id LIMIT \(limit)
    """
  }

  /// Writes decisions; a claim that has none yet is `failed` until it is decided.
  static func write(
    _ claims: [(claim: LegacyClaim, decided: DecidedClaim)], of app: App, in run: AdoptionRun,
    grant: UUID? = nil, at instant: Date
  ) -> Query {
    """
    INSERT INTO adoptions (bundle_id, customer, original_transaction_id, source, outcome, detail, purchase_id, grant_id,
      run_id, at)
    SELECT \(app.bundleID)::text, *, \(grant)::uuid, \(run.id)::bigint, \(instant)::timestamptz FROM unnest(
      \(claims.map(\.claim.key.customer.id))::text[], \(claims.map(\.claim.key.transactionID))::text[],
      \(claims.map(\.claim.source.rawValue))::text[], \(claims.map(\.decided.verdict.rawValue))::text[],
      \(claims.map(\.decided.detail))::text[], \(claims.map(\.decided.purchaseID))::text[])
    ON CONFLICT (bundle_id, customer, original_transaction_id) DO UPDATE SET source = excluded.source,
      outcome = excluded.outcome, detail = excluded.detail, purchase_id = excluded.purchase_id,
      grant_id = excluded.grant_id, run_id = excluded.run_id, at = excluded.at
    """
  }

  /// Writes down claims that have no row yet, as `failed` until they are decided.
  static func note(_ claims: [LegacyClaim], of app: App, at instant: Date) -> Query {
    """
    INSERT INTO adoptions (bundle_id, customer, original_transaction_id, source, outcome, detail, at)
    SELECT \(app.bundleID)::text, customer, id, source, \(ClaimVerdict.failed.rawValue), \(DecidedClaim.open.detail),
      \(instant)::timestamptz
    FROM unnest(\(claims.map(\.key.customer.id))::text[], \(claims.map(\.key.transactionID))::text[],
      \(claims.map(\.source.rawValue))::text[]) AS claim (customer, id, source)
    ON CONFLICT (bundle_id, customer, original_transaction_id) DO NOTHING
    """
  }

  /// The users among these whose row of `profiles` still has the claim.
  static func stillClaiming(_ users: [UUID], _ transactionIDs: [String]) -> Query {
    """
    SELECT id AS user_id FROM profiles
    JOIN unnest(\(users)::uuid[], \(transactionIDs)::text[]) AS claim (user_id, transaction_id) ON claim.user_id = id
    WHERE premium_original_transaction_id = claim.transaction_id
    """
  }
}

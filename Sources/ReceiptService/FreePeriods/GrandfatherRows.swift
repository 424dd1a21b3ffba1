import Foundation
import Postgres
import Subscriptions

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

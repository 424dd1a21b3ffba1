import Foundation
import Postgres
import Subscriptions

/// The statements that write users' premium status to one of the app's own tables.
///
/// The tables differ in their columns only: select and lock the rows, update those that differ, insert missing ones.
package struct ProfileTable: Sendable {
  /// The table's name in the configuration.
  package let destination: StatusDestination
  /// Selects which of these users have a row (`user_id`), and whether this transaction could lock it (`is_locked`).
  package let select: @Sendable ([UUID]) -> Query
  /// Updates the rows whose values differ.
  package let update: @Sendable ([ProfileWrite]) -> Query
  /// A condition on the rows that ``update`` would change: the stored row has a claim from before receiptd that
  /// `receiptd adopt` has not decided, and the new status is weaker.
  let isUndecidedClaim: @Sendable (_ bundleIDs: [String], _ instant: Date) -> Query
  /// Selects the premium values of these users' rows (`user_id`, and `values` as text).
  package let values: @Sendable ([UUID]) -> Query
  /// Inserts rows for users without one, and notes that receiptd added them. A row that another client has inserted
  /// meanwhile stays as it is.
  package let insert: @Sendable ([ProfileWrite]) -> Query

  /// The outcomes in the table `adoptions` that leave a claim open: a further claim, support, or a new account may
  /// decide it.
  package static let undecidedOutcomes = ["failed", "claimed_twice", "unknown_customer"]

  /// All tables, in the order in which they are written.
  package static let all = [profiles, userPreferences]

  /// Updates the rows whose values differ, of users of whom receiptd knows no purchase that counts. Claims that are not
  /// decided stay: an irrelevant record, such as one of the sandbox, must not erase them.
  func updateUnlessUndecided(
    _ writes: [ProfileWrite], of bundleIDs: [String], at instant: Date
  ) -> Query {
    "\(update(writes)) AND (\(isUndecidedClaim(bundleIDs, instant))) IS NOT TRUE"
  }

  /// Whether the table existed before receiptd, and no claim of the user was decided.
  private static func mayBeUndecided(_ table: StatusDestination, _ user: StaticString, _ bundleIDs: [String])
    -> Query
  {
    """
    EXISTS (SELECT FROM client_write_modes WHERE table_name = \(table.rawValue) AND existed_before)
    AND NOT EXISTS (SELECT FROM adoptions WHERE bundle_id = ANY(\(bundleIDs)) AND customer = (\(unescaped: user))::text
      AND outcome <> ALL(\(undecidedOutcomes)))
    """
  }
}

extension ProfileTable {
  /// The premium columns of `profiles`.
  package static let profiles = ProfileTable(
    destination: .profiles,
    select: { users in
      """
      WITH locked AS MATERIALIZED (
        SELECT id FROM profiles WHERE id = ANY(\(users)) FOR NO KEY UPDATE SKIP LOCKED)
      SELECT id AS user_id, id IN (SELECT id FROM locked) AS is_locked FROM profiles WHERE id = ANY(\(users))
      """
    },
    update: { writes in
      """
      UPDATE profiles SET premium_expires_at = new.expires_at, premium_product_id = new.product_id,
        premium_original_transaction_id = new.original_transaction_id
      FROM \(rows: writes.count)\(each: writes.map(\.userID)),
        \(each: writes.map(\.status.expiresAt)), \(each: writes.map(\.status.productID)),
        \(each: writes.map(\.status.originalTransactionID))))
        AS new (id, expires_at, product_id, original_transaction_id)
      WHERE profiles.id = new.id
        AND (premium_expires_at, premium_product_id, premium_original_transaction_id)
          IS DISTINCT FROM (new.expires_at, new.product_id, new.original_transaction_id)
      """
    },
    isUndecidedClaim: { bundleIDs, instant in
      // receiptd writes grants with a prefix. A purchase with an owner is no open claim: support may have moved it.
      """
      (premium_original_transaction_id <> '' OR premium_expires_at > \(instant)
        OR premium_expires_at IS NULL AND premium_product_id <> '')
      AND premium_product_id NOT LIKE 'grant:%' IS NOT FALSE
      AND (new.product_id IS NULL
        OR coalesce(new.expires_at, 'infinity') < coalesce(premium_expires_at, 'infinity'))
      AND \(mayBeUndecided(.profiles, "profiles.id", bundleIDs))
      AND NOT EXISTS (SELECT FROM subscriptions s
        WHERE s.original_transaction_id = premium_original_transaction_id AND s.user_id IS NOT NULL)
      """
    },
    values: { users in
      """
      SELECT id AS user_id,
        (premium_expires_at, premium_product_id, premium_original_transaction_id)::text AS values
      FROM profiles WHERE id = ANY(\(users))
      """
    },
    insert: { writes in
      """
      WITH added AS (
        INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id)
        SELECT new.* FROM \(rows: writes.count)\(each: writes.map(\.userID)),
          \(each: writes.map(\.status.expiresAt)), \(each: writes.map(\.status.productID)),
          \(each: writes.map(\.status.originalTransactionID)))) AS new
        ON CONFLICT (id) DO NOTHING RETURNING id)
      INSERT INTO added_profile_rows (table_name, user_id) SELECT 'profiles', id FROM added ON CONFLICT DO NOTHING
      """
    })

  /// `is_premium` and `bookmark_limit` of `user_preferences`.
  package static let userPreferences = ProfileTable(
    destination: .userPreferences,
    select: { users in
      """
      WITH locked AS MATERIALIZED (
        SELECT user_id FROM user_preferences WHERE user_id = ANY(\(users))
        FOR NO KEY UPDATE SKIP LOCKED)
      SELECT user_id, user_id IN (SELECT user_id FROM locked) AS is_locked
      FROM user_preferences WHERE user_id = ANY(\(users))
      """
    },
    update: { writes in
      """
      UPDATE user_preferences SET is_premium = new.is_premium, bookmark_limit = new.bookmark_limit
      FROM \(rows: writes.count)\(each: writes.map(\.userID)), \(each: writes.map(\.status.isPremium)),
        \(each: writes.map(\.bookmarkLimit))))
        AS new (user_id, is_premium, bookmark_limit)
      WHERE user_preferences.user_id = new.user_id
        AND (user_preferences.is_premium, user_preferences.bookmark_limit::bigint)
          IS DISTINCT FROM (new.is_premium, new.bookmark_limit)
      """
    },
    isUndecidedClaim: { bundleIDs, _ in
      // The row does not say what made it premium. With a grant, which may be over by now, it is receiptd's.
      """
      user_preferences.is_premium AND NOT new.is_premium
      AND \(mayBeUndecided(.userPreferences, "user_preferences.user_id", bundleIDs))
      AND NOT EXISTS (SELECT FROM grants
        WHERE grants.user_id = user_preferences.user_id AND bundle_id = ANY(\(bundleIDs)))
      """
    },
    values: { users in
      """
      SELECT user_id, (is_premium, bookmark_limit)::text AS values FROM user_preferences
      WHERE user_id = ANY(\(users))
      """
    },
    insert: { writes in
      """
      WITH added AS (
        INSERT INTO user_preferences (user_id, is_premium, bookmark_limit)
        SELECT new.* FROM \(rows: writes.count)\(each: writes.map(\.userID)),
          \(each: writes.map(\.status.isPremium)), \(each: writes.map(\.bookmarkLimit)))) AS new
        ON CONFLICT (user_id) DO NOTHING RETURNING user_id)
      INSERT INTO added_profile_rows (table_name, user_id) SELECT 'user_preferences', user_id FROM added
      ON CONFLICT DO NOTHING
      """
    })
}

import Foundation
import Postgres
import Subscriptions

/// The statements that write users' premium status to one of the app's own tables.
///
/// The tables differ in their columns only: select and lock the rows, update those that differ, insert missing ones.
struct ProfileTable: Sendable {
  /// The table's name in the configuration.
  let destination: StatusDestination
  /// Selects which of these users have a row (`user_id`), and whether this transaction could lock it (`is_locked`).
  let select: @Sendable ([UUID]) -> Query
  /// Updates the rows whose values differ.
  let update: @Sendable ([ProfileWrite]) -> Query
  /// Inserts rows for users without one.
  let insert: @Sendable ([ProfileWrite]) -> Query

  /// All tables, in the order in which they are written.
  static let all = [profiles, userPreferences]
}

extension ProfileTable {
  /// The premium columns of `profiles`.
  static let profiles = ProfileTable(
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
    insert: { writes in
      """
      INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id)
      SELECT new.* FROM \(rows: writes.count)\(each: writes.map(\.userID)),
        \(each: writes.map(\.status.expiresAt)), \(each: writes.map(\.status.productID)),
        \(each: writes.map(\.status.originalTransactionID)))) AS new
      ON CONFLICT (id) DO UPDATE SET premium_expires_at = excluded.premium_expires_at,
        premium_product_id = excluded.premium_product_id,
        premium_original_transaction_id = excluded.premium_original_transaction_id
      """
    })

  /// `is_premium` and `bookmark_limit` of `user_preferences`.
  static let userPreferences = ProfileTable(
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
    insert: { writes in
      """
      INSERT INTO user_preferences (user_id, is_premium, bookmark_limit)
      SELECT new.* FROM \(rows: writes.count)\(each: writes.map(\.userID)), \(each: writes.map(\.status.isPremium)),
        \(each: writes.map(\.bookmarkLimit)))) AS new
      ON CONFLICT (user_id) DO UPDATE SET is_premium = excluded.is_premium,
        bookmark_limit = excluded.bookmark_limit
      """
    })
}

import FoundationEssentials
import Postgres
import Subscriptions

/// A table of the app's own that a user's premium status is written to.
///
/// Each has its columns, but all are written in the same way: see which rows are there and free, change
/// those that say something else, make those that are missing.
struct ProfileTable: Sendable {
  /// Which of the configuration's places it is.
  let mirror: Mirror
  /// Of these users: who has a row, and whether it can be changed now (nobody else is changing it).
  let select: @Sendable ([UUID]) -> Query
  /// Changes the rows that are there and say something else.
  let update: @Sendable ([ProfileWrite]) -> Query
  /// Makes the rows of users who have none.
  let insert: @Sendable ([ProfileWrite]) -> Query

  /// Every table, in the order in which they are written.
  static let all = [profiles, userPreferences]
}

/// What is to stand on a user's profile.
struct ProfileWrite: Sendable {
  var userID: UUID
  var status: PremiumStatus

  /// The contract's numbers: 999 with premium, 2 without.
  var bookmarkLimit: Int { status.isPremium ? 999 : 2 }
}

extension ProfileTable {
  /// The premium columns of `profiles`.
  static let profiles = ProfileTable(
    mirror: .profiles,
    select: { users in
      """
      WITH free AS MATERIALIZED (
        SELECT id FROM profiles WHERE id = ANY(\(users)) FOR NO KEY UPDATE SKIP LOCKED)
      SELECT id, id IN (SELECT id FROM free) FROM profiles WHERE id = ANY(\(users))
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
    mirror: .userPreferences,
    select: { users in
      """
      WITH free AS MATERIALIZED (
        SELECT user_id FROM user_preferences WHERE user_id = ANY(\(users))
        FOR NO KEY UPDATE SKIP LOCKED)
      SELECT user_id, user_id IN (SELECT user_id FROM free)
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

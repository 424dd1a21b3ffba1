import FoundationEssentials
import Postgres
import Subscriptions

/// The premium columns of the tables `profiles` and `user_preferences`, which are the app's own.
enum ProfileRows {
  /// What is to stand on a user's profile.
  struct Write: Sendable {
    var userID: UUID
    var status: PremiumStatus
  }

  /// Which of these users have a row in `profiles`.
  static func existingProfiles(_ users: [UUID]) -> Query {
    "SELECT id FROM profiles WHERE id = ANY(\(users))"
  }

  /// Changes the profiles that are there and say something else.
  static func updateProfiles(_ writes: [Write]) -> Query {
    """
    UPDATE profiles SET premium_expires_at = new.expires_at, premium_product_id = new.product_id,
      premium_original_transaction_id = new.original_transaction_id
    FROM unnest(\(writes.map(\.userID))::uuid[],
      \(writes.map(\.status.expiresAt))::timestamptz[], \(writes.map(\.status.productID))::text[],
      \(writes.map(\.status.originalTransactionID))::text[])
      AS new (id, expires_at, product_id, original_transaction_id)
    WHERE profiles.id = new.id
      AND (premium_expires_at, premium_product_id, premium_original_transaction_id)
        IS DISTINCT FROM (new.expires_at, new.product_id, new.original_transaction_id)
    """
  }

  /// Makes the row of a user who has none.
  static func insertProfile(_ write: Write) -> Query {
    """
    INSERT INTO profiles (id, premium_expires_at, premium_product_id, premium_original_transaction_id)
    VALUES (\(write.userID), \(write.status.expiresAt), \(write.status.productID),
      \(write.status.originalTransactionID))
    ON CONFLICT (id) DO UPDATE SET premium_expires_at = excluded.premium_expires_at,
      premium_product_id = excluded.premium_product_id,
      premium_original_transaction_id = excluded.premium_original_transaction_id
    """
  }

  /// Which of these users have a row in `user_preferences`.
  static func existingPreferences(_ users: [UUID]) -> Query {
    "SELECT user_id FROM user_preferences WHERE user_id = ANY(\(users))"
  }

  /// Changes the preferences that are there and say something else.
  static func updatePreferences(_ writes: [Write]) -> Query {
    """
    UPDATE user_preferences SET is_premium = new.is_premium,
      bookmark_limit = CASE WHEN new.is_premium THEN 999 ELSE 2 END
    FROM unnest(\(writes.map(\.userID))::uuid[], \(writes.map(\.status.isPremium))::boolean[])
      AS new (user_id, is_premium)
    WHERE user_preferences.user_id = new.user_id
      AND user_preferences.is_premium IS DISTINCT FROM new.is_premium
    """
  }

  /// Makes the row of a user who has none.
  static func insertPreferences(_ write: Write) -> Query {
    """
    INSERT INTO user_preferences (user_id, is_premium, bookmark_limit)
    VALUES (\(write.userID), \(write.status.isPremium), \(write.status.isPremium ? 999 : 2))
    ON CONFLICT (user_id) DO UPDATE SET is_premium = excluded.is_premium,
      bookmark_limit = excluded.bookmark_limit
    """
  }
}

import AppStore
import Foundation
import Postgres
import Subscriptions
import Work

extension StoreCallQueue {
  /// Tells the App Store the user who first proved a purchase.
  ///
  /// The ledger takes a token that it has not seen as the App Store's decision about the owner. So this writes the token to
  /// the purchase's row first: a renewal that carries it later does not move a purchase that support has transferred.
  func tellAccountToken(_ call: StoreCall) async throws {
    guard let user = call.userID, try await reserve(user, for: call) else {
      return try await settle(call, .notNeeded, "the purchase has another owner, or names a user")
    }
    if clock.now() >= call.deadline { return try await settle(call, .late, "the App Store did not take it") }
    try await send(call) { api throws(AppStoreServerError) in
      try await api.setAppAccountToken(
        originalTransactionID: call.originalTransactionID,
        UpdateAppAccountTokenRequest(appAccountToken: user),
        in: call.environment)
    }
  }

  /// - Returns: whether the user still has the purchase and the App Store names no other.
  private func reserve(_ user: UUID, for call: StoreCall) async throws -> Bool {
    try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        AdvisoryLock.acquire(.purchase, [call.originalTransactionID]),
        """
        UPDATE subscriptions SET app_account_token = \(user)
        WHERE original_transaction_id = \(call.originalTransactionID) AND user_id = \(user)
          AND owned_because = 'first_claim' AND ownership = 'PURCHASED'
          AND (app_account_token IS NULL OR app_account_token = \(user))
          AND NOT EXISTS (
            SELECT FROM transactions t
            WHERE t.original_transaction_id = \(call.originalTransactionID) AND t.app_account_token IS NOT NULL)
        """,
      ])
      return answers[1].affected > 0
    }
  }
}

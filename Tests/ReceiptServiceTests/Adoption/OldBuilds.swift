import Foundation
import Postgres
import Text

@testable import ReceiptService

/// The statements that old builds of the apps send to the database.
protocol OldBuilds: Sendable {
  var pool: PostgresPool { get }
}

/// Old builds of the apps before receiptd arrives.
struct FormerBackend: OldBuilds {
  let pool: PostgresPool
}

extension OldBuilds {
  /// Runs a statement as PostgREST does it for a user.
  @discardableResult
  func run(_ statement: String, as user: UUID) async throws -> Rows {
    try await LiveTables.run(statement, as: user, on: pool)
  }

  /// What SwiftClimb sends after a purchase or renewal.
  func writesPremium(
    _ user: UUID, _ transactionID: String, product: String = SwiftClimb.annual,
    until expiry: String = "2027-01-19T10:00:00Z"
  ) async throws {
    try await run(
      """
      UPDATE profiles SET premium_expires_at = '\(expiry)', premium_product_id = '\(product)', \
      premium_original_transaction_id = '\(transactionID)' WHERE id = '\(user)'
      """, as: user)
  }

  /// What SwiftClimb sends after a change of the handle: the whole row, with a time of whole seconds.
  func writesWholeRow(_ user: UUID, handle: String, _ row: ProfileRow) async throws {
    func literal(_ text: String?) -> String { text.map { "'\($0)'" } ?? "NULL" }
    try await run(
      """
      INSERT INTO profiles (id, handle, display_name, premium_expires_at, premium_product_id, \
      premium_original_transaction_id, updated_at) \
      VALUES ('\(user)', '\(handle)', 'Ann', \(literal(row.expiresAt?.rfc3339)), \(literal(row.product)), \
      \(literal(row.originalTransactionID)), '2026-11-01T10:00:00Z') \
      ON CONFLICT (id) DO UPDATE SET handle = excluded.handle, display_name = excluded.display_name, \
      premium_expires_at = excluded.premium_expires_at, premium_product_id = excluded.premium_product_id, \
      premium_original_transaction_id = excluded.premium_original_transaction_id, updated_at = excluded.updated_at
      """, as: user)
  }

  /// What Thaqalayn sends after a purchase, and what it reads then.
  func writesIsPremium(_ user: UUID) async throws -> Bool? {
    try await run(
      "UPDATE user_preferences SET is_premium = true, bookmark_limit = 999 WHERE user_id = '\(user)'",
      as: user)
    return try await readsIsPremium(user)
  }

  /// What SwiftClimb reads when it syncs down.
  func readsProfile(_ user: UUID) async throws -> ProfileRow? {
    try await run("SELECT * FROM profiles WHERE id = '\(user)'", as: user).first.map(ProfileRow.init)
  }

  /// What Thaqalayn sends at sign-up.
  func signsUp(_ user: UUID) async throws {
    try await run("INSERT INTO user_preferences (user_id) VALUES ('\(user)')", as: user)
  }

  /// What Thaqalayn reads.
  func readsIsPremium(_ user: UUID) async throws -> Bool? {
    try await run("SELECT is_premium FROM user_preferences WHERE user_id = '\(user)'", as: user).first?
      .decode("is_premium", as: Bool?.self)
  }

  /// Whether the statement fails with 42501.
  func isRefused(_ body: () async throws -> Void) async throws -> Bool {
    do {
      try await body()
      return false
    } catch let error as PostgresError where error.sqlState == "42501" {
      return true
    }
  }
}

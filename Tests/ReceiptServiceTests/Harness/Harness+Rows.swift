import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

/// A row of `subscriptions`.
struct SubscriptionRow: Equatable, Sendable {
  var status: String
  var storeStatus: String
  var productID: String
  var tier: String?
  var transactionID: String
  var expiry: Date?
  var graceExpiry: Date?
  var revoked: Date?
  var autoRenews: Bool
  var userID: UUID?
  var deviceID: String?
}

struct ProfileRow: Equatable, Sendable {
  var expiresAt: Date?
  var product: String?
  var originalTransactionID: String?
}

extension ProfileRow {
  init(_ row: Row) throws {
    self.init(
      expiresAt: try row.decode("premium_expires_at"), product: try row.decode("premium_product_id"),
      originalTransactionID: try row.decode("premium_original_transaction_id"))
  }
}

extension Harness {
  func row(of originalTransactionID: String) async throws -> SubscriptionRow {
    let rows = try await pool.query(
      """
      SELECT status, store_status, product_id, tier, transaction_id, expiry_date, grace_expires_at,
        revoked_at, auto_renew_enabled, user_id, device_id
      FROM subscriptions WHERE original_transaction_id = \(originalTransactionID)
      """)
    let row = try #require(rows.first)
    return SubscriptionRow(
      status: try row.decode("status"), storeStatus: try row.decode("store_status"),
      productID: try row.decode("product_id"),
      tier: try row.decode("tier"), transactionID: try row.decode("transaction_id"),
      expiry: try row.decode("expiry_date"),
      graceExpiry: try row.decode("grace_expires_at"), revoked: try row.decode("revoked_at"),
      autoRenews: try row.decode("auto_renew_enabled"),
      userID: try row.decode("user_id"), deviceID: try row.decode("device_id"))
  }

  func profileRow(of user: UUID) async throws -> ProfileRow? {
    let rows = try await pool.query(
      """
      SELECT premium_expires_at, premium_product_id, premium_original_transaction_id
      FROM profiles WHERE id = \(user)
      """)
    return try rows.first.map(ProfileRow.init)
  }

  func count(_ table: String) async throws -> Int {
    try await pool.query("SELECT count(*) FROM \(unescaped: table)")[0].decode("count", as: Int.self)
  }

  /// A transaction of the store, changed before it is signed.
  func transaction(_ change: (inout TransactionInfo) -> Void = { _ in }) throws -> TransactionInfo {
    var info = try buy().transaction
    change(&info)
    return info
  }

  func sign(_ info: TransactionInfo) throws -> String { try store.identity.authority.signer.sign(info) }
}

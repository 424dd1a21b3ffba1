import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

/// What a row of `subscriptions` says, as support reads it.
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
      status: try row.decode(0), storeStatus: try row.decode(1), productID: try row.decode(2),
      tier: try row.decode(3), transactionID: try row.decode(4), expiry: try row.decode(5),
      graceExpiry: try row.decode(6), revoked: try row.decode(7), autoRenews: try row.decode(8),
      userID: try row.decode(9), deviceID: try row.decode(10))
  }

  func profileRow(of user: UUID) async throws -> ProfileRow? {
    let rows = try await pool.query(
      """
      SELECT premium_expires_at, premium_product_id, premium_original_transaction_id
      FROM profiles WHERE id = \(user)
      """)
    return try rows.first.map {
      ProfileRow(
        expiresAt: try $0.decode(0), product: try $0.decode(1), originalTransactionID: try $0.decode(2))
    }
  }

  func count(_ table: String) async throws -> Int {
    try await pool.query("SELECT count(*) FROM \(unescaped: table)")[0].decode(0, as: Int.self)
  }

  /// A transaction of the store, changed before it is signed.
  func transaction(_ change: (inout TransactionInfo) -> Void = { _ in }) throws -> TransactionInfo {
    var info = try buy().transaction
    change(&info)
    return info
  }

  func sign(_ info: TransactionInfo) throws -> String { try store.identity.authority.signer.sign(info) }
}

import Foundation
import Postgres
import Subscriptions

/// A customer that is exported or erased, with the purchases that are the customer's.
struct ErasedCustomer: Sendable {
  let customer: Customer
  /// The apps that know the customer.
  let bundleIDs: [String]
  /// All apps whose customers are of this kind: the tables of unproven words may name the customer in any.
  let appIDs: [String]
  /// Replaces the id: random, so that nothing leads back to the customer. Rows of one customer stay together, and counts of
  /// customers stay as they are.
  let pseudonym: String
  /// The purchases that the customer owns (`originalTransactionId`).
  var purchases: [String] = []
  /// The purchases of other customers whose facts name this one: an earlier owner, or a former `appAccountToken`.
  var formerPurchases: [String] = []
  let instant: Date

  init(_ customer: Customer, of bundleIDs: [String], in catalog: AppCatalog, at instant: Date) {
    self.customer = customer
    self.bundleIDs = bundleIDs
    appIDs = Set(catalog.apps.filter { $0.customer == customer.kind }.map(\.bundleID) + bundleIDs).sorted()
    self.instant = instant
    // Columns of users take UUIDs alone.
    let random = UUID().uuidString.lowercased()
    pseudonym = customer.userID == nil ? "erased-\(random)" : random
  }

  var id: String { customer.id }

  /// `nil` for a device.
  var user: UUID? { customer.userID }

  /// `nil` for a user.
  var device: String? { customer.deviceID }

  /// All purchases whose facts name the customer.
  var namedPurchases: [String] { purchases + formerPurchases }

  /// The Apple Accounts (appTransactionId) of the trials and the purchases.
  var findAccounts: Query {
    """
    SELECT app_transaction_id AS account FROM subscriptions
    WHERE original_transaction_id = ANY(\(purchases)) AND app_transaction_id IS NOT NULL
    UNION SELECT original.app_transaction_id
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE own.device_id = \(device) AND original.app_transaction_id IS NOT NULL
    """
  }

  /// A row for each purchase: its id, and whether the customer owns it. A purchase without an owner is the customer's too if
  /// the customer alone has its Apple Account.
  ///
  /// The scans for tokens have no index: erasing is rare, and an index would cost each webhook.
  var findPurchases: Query {
    """
    SELECT original_transaction_id, true AS is_owned FROM subscriptions
    WHERE user_id = \(user) OR device_id = \(device) AND user_id IS NULL
    UNION ALL
    SELECT unclaimed.original_transaction_id, true
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    JOIN subscriptions unclaimed ON unclaimed.app_transaction_id = original.app_transaction_id
      AND unclaimed.bundle_id = own.bundle_id
    WHERE own.device_id = \(device) AND unclaimed.user_id IS NULL AND unclaimed.device_id IS NULL
      AND NOT EXISTS (
        SELECT FROM trials t WHERE coalesce(t.continues, t.id) = original.id AND t.device_id <> own.device_id
          AND t.device_id NOT LIKE 'erased-%')
      AND NOT EXISTS (
        SELECT FROM subscriptions s WHERE s.app_transaction_id = original.app_transaction_id
          AND s.bundle_id = own.bundle_id AND s.device_id <> own.device_id)
    UNION ALL
    SELECT original_transaction_id, false FROM (
      SELECT original_transaction_id FROM subscriptions WHERE taken_from = \(id) OR app_account_token = \(user)
      UNION SELECT original_transaction_id FROM transactions WHERE app_account_token = \(user)
    ) AS named
    ORDER BY 1, 2
    """
  }

  /// The customer with the purchases of ``findPurchases``.
  func with(_ rows: Rows) throws -> ErasedCustomer {
    var found = self
    var isOwned: [String: Bool] = [:]
    for row in rows {
      let id = try row.decode("original_transaction_id", as: String.self)
      let owned = try row.decode("is_owned", as: Bool.self)
      isOwned[id] = isOwned[id] == true || owned
    }
    found.purchases = isOwned.filter(\.value).keys.sorted()
    found.formerPurchases = isOwned.filter { !$0.value }.keys.sorted()
    return found
  }
}

import Foundation
import Identifiers
import Postgres
import Subscriptions

/// Finds the customers and purchases that have an id.
struct CustomerSearch {
  /// A customer of one app.
  struct Match: Hashable {
    var customer: Customer
    var bundleID: String

    /// - Returns: `nil` for a row without a customer.
    init?(_ row: Row) throws {
      guard let customer = try Customer(row) else { return nil }
      self.customer = customer
      bundleID = try row.decode("bundle_id")
    }
  }

  /// The customers, sorted by app and id.
  private(set) var customers: [Match] = []
  /// The original transaction ids of purchases with that id, with or without an owner.
  private(set) var purchases: [String] = []

  /// - Parameter id: a user's UUID, the id of a device or a paired device, or any transaction id.
  init(_ id: String, in catalog: AppCatalog, _ connection: PostgresConnection) async throws {
    let id = (try? DeviceID(id))?.name ?? id
    let user = UUID(rfc9562: id)
    let answers = try await connection.pipeline([
      Self.purchases(id), Self.customers(id, user, apps: catalog.apps.map(\.bundleID)),
    ])
    purchases = Set(try answers[0].map { try $0.decode("original_transaction_id", as: String.self) }).sorted()
    let matches = try answers.flatMap { try $0.compactMap(Match.init) }
    customers = Set(matches).sorted { ($0.bundleID, $0.customer.id) < ($1.bundleID, $1.customer.id) }
  }

  private static func purchases(_ id: String) -> Query {
    """
    SELECT original_transaction_id, bundle_id, user_id, device_id FROM subscriptions
    WHERE bundle_id IS NOT NULL AND original_transaction_id IN (
      SELECT \(id) UNION SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id))
    UNION
    SELECT original_transaction_id, bundle_id, NULL, device_id FROM purchase_devices
    WHERE NOT is_barred AND original_transaction_id IN (
      SELECT \(id) UNION SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id))
    """
  }

  private static func customers(_ id: String, _ user: UUID?, apps: [String]) -> Query {
    """
    SELECT bundle_id, user_id, NULL AS device_id FROM subscriptions
    WHERE user_id = \(user) AND bundle_id IS NOT NULL
    UNION SELECT bundle_id, NULL, device_id FROM subscriptions
    WHERE device_id = \(id) AND user_id IS NULL AND bundle_id IS NOT NULL
    UNION SELECT bundle_id, NULL, device_id FROM purchase_devices WHERE device_id = \(id) AND NOT is_barred
    UNION SELECT bundle_id, user_id, NULL FROM grants WHERE user_id = \(user)
    UNION SELECT bundle_id, NULL, device_id FROM grants WHERE device_id = \(id)
    UNION SELECT bundle_id, NULL, device_id FROM trials
    WHERE device_id = \(id) AND bundle_id = ANY(\(apps))
    UNION SELECT bundle_id, NULL, device_id FROM devices
    WHERE (device_id = \(id) OR child_device_id = \(id)) AND bundle_id = ANY(\(apps))
    UNION SELECT bundle_id, \(user)::uuid, NULL FROM support_actions
    WHERE customer_kind = 'user' AND bundle_id IS NOT NULL
      AND (from_customer = \(user)::uuid::text OR to_customer = \(user)::uuid::text)
    UNION SELECT bundle_id, NULL, \(id)::text FROM support_actions
    WHERE customer_kind = 'device' AND bundle_id IS NOT NULL
      AND (from_customer = \(id) OR to_customer = \(id))
    """
  }
}

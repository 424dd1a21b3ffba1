import Foundation
import Postgres

extension Doctor {
  /// How old a purchase must be, in seconds. A notification may arrive before the client's first request.
  private static let leastAge = 86_400.0

  /// Reports purchases that give access to no customer, because no client has shown them: those of old builds, say, where
  /// clients may not write the premium columns.
  /// - Returns: `nil` if there is none.
  func unownedPurchases(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      SELECT bundle_id || ': ' || count(*) AS purchases FROM support_subscriptions
      WHERE user_id IS NULL AND device_id IS NULL AND has_access AND environment = 'Production'
        AND created_at < \(clock.now() - Self.leastAge)
      GROUP BY bundle_id ORDER BY bundle_id
      """)
    if rows.isEmpty { return nil }
    let purchases = try rows.map { try $0.decode("purchases", as: String.self) }
    return .ok(
      "purchases without a customer",
      "\(purchases.joined(separator: ", ")); paid for a day ago or longer, and no client has shown them. "
        + "'Restore purchases' in the new client binds them, or receiptd transfer")
  }
}

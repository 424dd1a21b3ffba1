import Foundation
import Postgres
import Work

extension Doctor {
  /// How old a purchase must be, in seconds. A notification may arrive before the client's first request.
  private static let leastAge = 86_400.0

  /// Reports purchases that give access to no customer, because none has proved them: those of old builds, say, where
  /// clients may not write the premium columns.
  /// - Returns: `nil` if there is none.
  func unownedPurchases(_ pool: PostgresPool) async throws -> CheckResult? {
    let now = clock.now()
    let rows = try await pool.query(
      """
      SELECT bundle_id || ': ' || count(*) AS purchases FROM subscriptions s
      WHERE user_id IS NULL AND device_id IS NULL AND erased_at IS NULL AND is_counted AND environment = 'Production'
        AND created_at < \(now - Self.leastAge)
        AND (SELECT s.phase_statuses[1 + count(*) FILTER (WHERE start <= \(now))] FROM unnest(s.phase_starts) AS p (start))
          IN ('active', 'grace')
      GROUP BY bundle_id ORDER BY bundle_id
      """)
    if rows.isEmpty { return nil }
    let purchases = try rows.map { try $0.decode("purchases", as: String.self) }
    return .ok(
      "purchases without a customer",
      "\(purchases.joined(separator: ", ")); known for a day or longer, and proved by no customer. "
        + "'Restore purchases' in the new client binds them, or receiptd transfer")
  }
}

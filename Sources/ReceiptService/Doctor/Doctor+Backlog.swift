import Foundation
import Postgres

extension Doctor {
  /// Reports notifications that could not be processed, and premium statuses that the app's own tables refused.
  func backlog(_ pool: PostgresPool) async throws -> [CheckResult] {
    [try await waitingNotifications(pool), try await unwrittenStatuses(pool)].compactMap { $0 }
  }

  private func waitingNotifications(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      SELECT outcome || ': ' || count(*) AS reason FROM notifications WHERE processed_at IS NULL
      GROUP BY outcome ORDER BY outcome
      """)
    if rows.isEmpty { return nil }
    let reasons = try rows.map { try $0.decode("reason", as: String.self) }
    return .warn(
      "notifications", "some are kept and not processed (\(reasons.joined(separator: ", ")))",
      "SELECT * FROM support_waiting_notifications")
  }

  private func unwrittenStatuses(_ pool: PostgresPool) async throws -> CheckResult? {
    let row = try await pool.query(
      """
      SELECT count(*) AS users, min(created_at) AS oldest,
        (array_agg(last_error ORDER BY id DESC) FILTER (WHERE last_error IS NOT NULL))[1] AS error
      FROM outbox WHERE destination = \(OutboxRows.profiles) AND done_at IS NULL AND attempts > 0
      """)[0]
    guard let oldest = try row.decode("oldest", as: Date?.self) else { return nil }
    let error = try row.decode("error", as: String?.self)
    return .warn(
      "premium status",
      "\(try row.decode("users", as: Int.self)) not written, the first since \(oldest.rfc3339)"
        + (error.map { ": \($0)" } ?? ""),
      "SELECT * FROM support_outbox WHERE destination = 'profiles' AND done_at IS NULL")
  }
}

import Foundation
import Postgres
import Subscriptions

/// A run of `receiptd adopt`: a row of `adoption_runs`. A run that was stopped is continued by the next one.
struct AdoptionRun: Sendable {
  /// `nil` for a dry run, which has no row.
  var id: Int64?
  /// The start of the app's first run, by the database's clock; `nil` if there was none.
  var firstStart: Date?

  /// Continues the app's last run, if it was stopped, else begins one.
  static func begin(for app: App, isDryRun: Bool, in pool: PostgresPool) async throws -> AdoptionRun {
    if !isDryRun {
      _ = try await pool.query(
        """
        INSERT INTO adoption_runs (bundle_id) SELECT \(app.bundleID)
        WHERE NOT EXISTS (SELECT FROM adoption_runs WHERE bundle_id = \(app.bundleID) AND finished_at IS NULL)
        """)
    }
    let row = try await pool.query(
      """
      SELECT max(id) AS id, min(started_at) AS first_start FROM adoption_runs WHERE bundle_id = \(app.bundleID)
      """)[0]
    return AdoptionRun(
      id: try isDryRun ? nil : row.decode("id", as: Int64.self), firstStart: try row.decode("first_start"))
  }

  func finish(in pool: PostgresPool) async throws {
    guard let id else { return }
    _ = try await pool.query("UPDATE adoption_runs SET finished_at = now() WHERE id = \(id)")
  }
}

import Foundation
import Postgres
import Subscriptions

/// A run of `receiptd adopt`: a row of `adoption_runs`. A run that was stopped is continued by the next one.
struct AdoptionRun: Sendable {
  /// `nil` for a dry run, which has no row.
  var id: Int64?
  /// The start of the first run on the legacy tables that reached its end, by the database's clock; `nil` if there was none. A
  /// run decides all claims that it finds, so what is open afterwards was written since.
  var firstStart: Date?

  /// Continues the app's last run, if it was stopped, else begins one.
  /// - Parameter isOfFile: whether it reads a file in place of the legacy tables.
  static func begin(
    for app: App, isOfFile: Bool, isDryRun: Bool, in pool: PostgresPool
  ) async throws -> AdoptionRun {
    if !isDryRun {
      _ = try await pool.query(
        """
        INSERT INTO adoption_runs (bundle_id, is_of_file) SELECT \(app.bundleID), \(isOfFile)
        WHERE NOT EXISTS (
          SELECT FROM adoption_runs
          WHERE bundle_id = \(app.bundleID) AND is_of_file = \(isOfFile) AND finished_at IS NULL)
        """)
    }
    let row = try await pool.query(
      """
      SELECT max(id) FILTER (WHERE is_of_file = \(isOfFile)) AS id,
        min(started_at) FILTER (WHERE NOT is_of_file AND finished_at IS NOT NULL) AS first_start
      FROM adoption_runs WHERE bundle_id = \(app.bundleID)
      """)[0]
    return AdoptionRun(
      id: try isDryRun ? nil : row.decode("id", as: Int64.self), firstStart: try row.decode("first_start"))
  }

  func finish(in pool: PostgresPool) async throws {
    guard let id else { return }
    _ = try await pool.query("UPDATE adoption_runs SET finished_at = now() WHERE id = \(id)")
  }
}

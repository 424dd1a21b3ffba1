import HTTP
import HTTPTypes
import Postgres

/// `GET /readyz`: whether this process can do its work now.
struct Readiness: Sendable {
  let facilities: Facilities

  private struct Answer: Encodable {
    var ready: Bool
    var database: String
  }

  func respond(to request: Request) async throws -> Response {
    // Whoever sends requests here shall know before connections are refused.
    if facilities.isDraining {
      return try Response.json(.serviceUnavailable, Answer(ready: false, database: "stopping"))
    }
    do {
      let isMigrated = try await facilities.migrator.pending().isEmpty
      let missing = isMigrated ? try await missingTables() : ""
      guard missing.isEmpty else {
        return try Response.json(
          .serviceUnavailable, Answer(ready: false, database: "tables are missing: \(missing)"))
      }
      return try Response.json(
        isMigrated ? .ok : .serviceUnavailable,
        Answer(ready: isMigrated, database: isMigrated ? "migrated" : "migrations are pending"))
    } catch {
      return try Response.json(
        .serviceUnavailable, Answer(ready: false, database: "cannot be reached"))
    }
  }

  /// The tables that are not there although the migrations are, as while a backup is restored.
  private func missingTables() async throws -> String {
    try await facilities.pool.query(
      """
      SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM unnest(\(Doctor.tables)::text[]) AS name
      WHERE to_regclass(name) IS NULL
      """
    )[0].decode(0)
  }
}

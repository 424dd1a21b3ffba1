import HTTP
import HTTPTypes
import Postgres

/// `GET /readyz`: whether this process can serve requests now.
struct Readiness: Sendable {
  let sharedResources: SharedResources

  private struct Answer: Encodable {
    var ready: Bool
    var database: String
  }

  func respond(to request: Request) async throws -> Response {
    // A load balancer must stop sending requests before connections are refused.
    if sharedResources.isDraining {
      return try Response.json(.serviceUnavailable, Answer(ready: false, database: "stopping"))
    }
    do {
      let isMigrated = try await sharedResources.migrator.pending().isEmpty
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

  /// The tables that are missing although all migrations are applied, for example while a backup is restored.
  private func missingTables() async throws -> String {
    try await sharedResources.pool.query(
      """
      SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') AS tables FROM unnest(\(Doctor.tables)::text[]) AS name
      WHERE to_regclass(name) IS NULL
      """
    )[0].decode("tables")
  }
}

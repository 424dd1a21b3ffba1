import HTTP
import HTTPTypes
import Postgres

/// `GET /readyz`: whether this process can do its work now.
struct Readiness: Sendable {
  let pool: PostgresPool
  let migrator: Migrator

  private struct Answer: Encodable {
    var ready: Bool
    var database: String
  }

  func respond(to request: Request) async throws -> Response {
    do {
      let isMigrated = try await migrator.pending().isEmpty
      return try Response.json(
        isMigrated ? .ok : .serviceUnavailable,
        Answer(ready: isMigrated, database: isMigrated ? "migrated" : "migrations are pending"))
    } catch {
      return try Response.json(
        .serviceUnavailable, Answer(ready: false, database: "cannot be reached"))
    }
  }
}

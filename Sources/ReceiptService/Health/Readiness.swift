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
      return try Response.json(
        isMigrated ? .ok : .serviceUnavailable,
        Answer(ready: isMigrated, database: isMigrated ? "migrated" : "migrations are pending"))
    } catch {
      return try Response.json(
        .serviceUnavailable, Answer(ready: false, database: "cannot be reached"))
    }
  }
}

import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

/// Runs `body` with a folder of migrations and a database, and deletes the folder.
func withMigrations(
  _ files: [String: String],
  _ body: nonisolated(nonsending) (MigrationsFolder, PostgresPool) async throws -> Void
) async throws {
  let folder = try MigrationsFolder(files)
  defer { folder.remove() }
  try await withPool {
    $0.maximumConnections = 4
  } _: { pool in
    try await body(folder, pool)
  }
}

/// The error of a migration run; `nil` if it succeeds.
func migrationFailure(
  _ body: nonisolated(nonsending) () async throws -> Void
) async throws -> MigrationError? {
  do {
    try await body()
    return nil
  } catch let error as MigrationError {
    return error
  }
}

/// Two migrations, of which the second needs the first, and a file that is none.
let twoMigrations = [
  "20260102_second.sql": "create table b (n int); insert into b select n from a;",
  "20260101_first.sql": "create table a (n int);\ninsert into a values (1), (2);",
  "notes.txt": "not a migration",
]

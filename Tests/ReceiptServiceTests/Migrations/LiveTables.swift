import Foundation
import Postgres
import TestDatabase

@testable import ReceiptService

/// The tables of the four apps as their teams run them before receiptd arrives: `Fixtures/Live`, on one database.
enum LiveTables {
  /// The files, in the order in which they are loaded.
  static let files = ["supabase", "swiftclimb", "thaqalayn", "screentime"]

  /// A user of `supabase.sql`, from 1 to 9.
  static func user(_ number: Int) -> UUID {
    UUID(uuid: (0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, UInt8(number)))
  }

  /// Runs a test on an empty database with these tables.
  /// - Parameter timeZone: the time zone of the database's sessions.
  static func with(
    timeZone: String = "UTC", _ body: (TestDatabase, PostgresPool) async throws -> Void
  ) async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        try await run("ALTER DATABASE \(database.name) SET TimeZone = '\(timeZone)'", on: pool)
      }
      try await database.withPool { pool in
        for file in files { try await load(file, into: pool) }
        try await body(database, pool)
      }
    }
  }

  /// Runs a test on these tables, migrated, with a service of the shipped configuration.
  static func withService(_ body: (Harness) async throws -> Void) async throws {
    try await with { database, pool in
      try await Migrator(pool: pool, folder: Harness.migrations).apply()
      let harness = try await Harness(
        databaseURL: database.uri, configuration: ScreenTime.configuration(), databaseTimeout: .seconds(60))
      do {
        try await body(harness)
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }

  /// Runs a file of `Fixtures/Live`.
  static func load(_ file: String, into pool: PostgresPool) async throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../Fixtures/Live/\(file).sql").standardizedFileURL.path
    var script = try String(contentsOfFile: path, encoding: .utf8)
    // Roles are the cluster's, so another test may have made them.
    let creation = script.split(separator: "\n").filter { $0.hasPrefix("CREATE ROLE ") }
    if !creation.isEmpty {
      script = script.split(separator: "\n").filter { !$0.hasPrefix("CREATE ROLE ") }.joined(separator: "\n")
      for statement in creation {
        try await run(
          """
          DO $roles$ BEGIN \(statement)
          EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $roles$
          """, on: pool)
      }
    }
    try await run(script, on: pool)
  }

  /// Runs a script of several statements.
  static func run(_ script: String, on pool: PostgresPool) async throws {
    _ = try await pool.withConnection { connection in
      try await connection.execute(script: script, timeout: .seconds(60))
    }
  }

  /// Runs a statement as PostgREST does, for a user, and commits it.
  static func run(_ statement: String, as user: UUID, on pool: PostgresPool) async throws -> Rows {
    let claims = #"{"sub": "\#(user.uuidString.lowercased())", "role": "authenticated"}"#
    return try await pool.withTransaction { connection in
      _ = try await connection.query("SET LOCAL ROLE authenticated")
      _ = try await connection.query("SELECT set_config('request.jwt.claims', \(claims), true)")
      return try await connection.query(Query(unescaped: statement))
    }
  }
}

extension TestDatabase {
  /// The database's name.
  fileprivate var name: String { String(uri.prefix { $0 != "?" }.split(separator: "/").last ?? "") }
}

import Foundation
import Postgres

/// The server of the test databases: the one of `TEST_DATABASE_URL`, else a private one, started once per process.
actor TestServer {
  static let shared = TestServer()

  private var starting: Task<String, any Error>?
  private var adminPool: PostgresPool?
  private var templates: [String: Task<String, any Error>] = [:]

  func uri() async throws -> String {
    if let uri = ProcessInfo.processInfo.environment["TEST_DATABASE_URL"], !uri.isEmpty { return uri }
    if let starting { return try await starting.value }
    let task = Task { try await PrivatePostgres.start().uri }
    starting = task
    return try await task.value
  }

  private func admin() async throws -> PostgresPool {
    let uri = try await uri()
    if let adminPool { return adminPool }
    var configuration = try PostgresConfiguration(uri: uri, applicationName: "tests")
    configuration.maximumConnections = 4
    configuration.acquireTimeout = .seconds(60)
    configuration.queryTimeout = .seconds(60)
    let pool = PostgresPool(configuration: configuration)
    adminPool = pool
    return pool
  }

  /// An empty database: a used one that was emptied, or a new one.
  func lend() async throws -> String {
    await turn()
    do {
      if let name = empty.popLast() { return name }
      return try await create(template: "template0")
    } catch {
      endTurn()
      throw error
    }
  }

  /// A copy of a migrated database.
  func lendCopy(ofMigrations folder: String) async throws -> String {
    await turn()
    do {
      return try await create(template: try await template(migratedFrom: folder))
    } catch {
      endTurn()
      throw error
    }
  }

  /// Takes a database back and empties it, which is several times faster than dropping and creating one.
  func takeBack(_ name: String, isReusable: Bool) async throws {
    defer { endTurn() }
    if isReusable, (try? await clear(name)) != nil {
      empty.append(name)
    } else {
      _ = try await admin().query("drop database if exists \(unescaped: name) with (force)")
    }
  }

  private func create(template: String) async throws -> String {
    let name = "test_\(UUID().uuidString.lowercased().filter { $0 != "-" })"
    _ = try await admin().query("create database \(unescaped: name) template \(unescaped: template)")
    return name
  }

  private func clear(_ name: String) async throws {
    let database = TestDatabase(uri: try await uri().replacingDatabase(with: name))
    try await database.withPool { pool in
      try await pool.withConnection { connection in
        _ = try await connection.execute(
          script: """
            select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid();
            do $$ declare name text; begin
              for name in select nspname from pg_namespace
                where nspname !~ '^pg_' and nspname <> 'information_schema'
              loop execute format('drop schema %I cascade', name); end loop;
              execute format('alter database %I reset all', current_database());
            end $$;
            create schema public authorization pg_database_owner;
            grant all on schema public to public;
            """, timeout: .seconds(60))
      }
    }
  }

  // MARK: Limit of databases

  /// All tests start at once; without a limit the server would have to create a database for each.
  private static let maximumLent = 8
  private var empty: [String] = []
  private var lent = 0
  private var line: [CheckedContinuation<Void, Never>] = []

  private func turn() async {
    if lent < Self.maximumLent {
      lent += 1
    } else {
      await withCheckedContinuation { line.append($0) }
    }
  }

  private func endTurn() {
    if line.isEmpty {
      lent -= 1
    } else {
      line.removeFirst().resume()
    }
  }

  /// A database with the folder's migrations, created once. No session stays connected, because PostgreSQL copies only
  /// a database without sessions.
  private func template(migratedFrom folder: String) async throws -> String {
    if let template = templates[folder] { return try await template.value }
    let task = Task {
      let name = try await create(template: "template0")
      let database = TestDatabase(uri: try await uri().replacingDatabase(with: name))
      try await database.withPool { pool in
        _ = try await Migrator(pool: pool, folder: folder).apply()
      }
      return name
    }
    templates[folder] = task
    return try await task.value
  }
}

import Foundation
import Postgres

/// The server on which tests make their databases: the one that `TEST_DATABASE_URL` names, else
/// a private one, started once for the process.
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

  /// Creates a database.
  ///
  /// - Returns: its name.
  func create(template: String = "template0") async throws -> String {
    let name = "test_\(UUID().uuidString.lowercased().filter { $0 != "-" })"
    _ = try await admin().query("create database \(unescaped: name) template \(unescaped: template)")
    return name
  }

  func drop(_ name: String) async throws {
    _ = try await admin().query("drop database if exists \(unescaped: name) with (force)")
  }

  /// A database that has the folder's migrations, made once and never connected to afterwards,
  /// so that it can be copied.
  func template(migratedFrom folder: String) async throws -> String {
    if let template = templates[folder] { return try await template.value }
    let task = Task {
      let name = try await create()
      let database = TestDatabase(uri: try await uri().replacingDatabase(with: name))
      let pool = try database.pool()
      do {
        try await Migrator(pool: pool, folder: folder).apply()
      } catch {
        await pool.close()
        throw error
      }
      await pool.close()
      return name
    }
    templates[folder] = task
    return try await task.value
  }
}

public import Postgres

/// A database that belongs to one test.
public struct TestDatabase: Sendable {
  /// A connection URI for the database.
  public let uri: String

  /// The database of a URI.
  public init(uri: String) { self.uri = uri }

  /// The port in the URI; 5432 if there is none.
  public var port: UInt16 { uri.port ?? 5432 }

  /// The URI of the same database behind another port of 127.0.0.1, such as a ``Proxy``'s.
  public func uri(port: UInt16) -> String { uri.replacingHost(with: "127.0.0.1:\(port)") }

  /// The URI of the same database with another list of hosts and ports.
  public func uri(hosts: String) -> String { uri.replacingHost(with: hosts) }

  /// The URI of the same database for another role, without a password.
  public func uri(role: String) -> String { uri.replacingUser(with: role) }

  /// A configuration for the database, changed by `configure`. Its timeout is long: on a busy machine a test may stand
  /// still for ten seconds in the middle of a transaction.
  public func configuration(
    _ configure: (inout PostgresConfiguration) -> Void = { _ in }
  ) throws -> PostgresConfiguration {
    var configuration = try PostgresConfiguration(uri: uri, applicationName: "tests")
    configuration.queryTimeout = .seconds(60)
    configure(&configuration)
    return configuration
  }

  /// A pool for the database, which the caller closes.
  public func pool(_ configure: (inout PostgresConfiguration) -> Void = { _ in }) throws -> PostgresPool {
    PostgresPool(configuration: try configuration(configure))
  }

  /// Runs `body` with a pool for the database, and closes the pool.
  nonisolated(nonsending) public func withPool<R>(
    _ configure: (inout PostgresConfiguration) -> Void = { _ in },
    _ body: nonisolated(nonsending) (PostgresPool) async throws -> R
  ) async throws -> R {
    let pool = try pool(configure)
    do {
      let result = try await body(pool)
      await pool.close()
      return result
    } catch {
      await pool.close(grace: .zero)
      throw error
    }
  }
}

/// Runs `body` with a database of its own, on the server of `TEST_DATABASE_URL` or on a private one. At most eight
/// tests have a database at the same time, so a test must not take a second one.
/// - Parameter migrationsFolder: migrations that the database starts with. They run once per process, in a template
/// that each test copies. Without it the database is empty.
nonisolated(nonsending) public func withTestDatabase<R>(
  migrationsFolder: String? = nil,
  _ body: nonisolated(nonsending) (TestDatabase) async throws -> R
) async throws -> R {
  let server = TestServer.shared
  let name =
    if let migrationsFolder {
      try await server.lendCopy(ofMigrations: migrationsFolder)
    } else {
      try await server.lend()
    }
  let isReusable = migrationsFolder == nil
  do {
    let database = TestDatabase(uri: try await server.uri().replacingDatabase(with: name))
    let result = try await body(database)
    try await server.takeBack(name, isReusable: isReusable)
    return result
  } catch {
    try? await server.takeBack(name, isReusable: isReusable)
    throw error
  }
}

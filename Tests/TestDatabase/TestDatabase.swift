public import Postgres

/// An empty database that belongs to one test.
public struct TestDatabase: Sendable {
  /// A connection URI for the database.
  public let uri: String

  /// A configuration for the database, changed by `configure`.
  public func configuration(
    _ configure: (inout PostgresConfiguration) -> Void = { _ in }
  ) throws -> PostgresConfiguration {
    var configuration = try PostgresConfiguration(uri: uri, applicationName: "tests")
    configure(&configuration)
    return configuration
  }

  /// A pool for the database; whoever asks closes it.
  public func pool(_ configure: (inout PostgresConfiguration) -> Void = { _ in }) throws -> PostgresPool {
    PostgresPool(configuration: try configuration(configure))
  }
}

/// Runs `body` with a database of its own, on the server that `TEST_DATABASE_URL` names or on a
/// private one, and drops it afterwards.
///
/// - Parameter migrationsFolder: migrations that the database starts with; they run once a process,
///   into a template.
public func withTestDatabase<R>(
  migrationsFolder: String? = nil,
  _ body: nonisolated(nonsending) (TestDatabase) async throws -> R
) async throws -> R {
  throw CancellationError()
}

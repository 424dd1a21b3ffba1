public import Logging

/// A bounded set of connections to one database (or to one of several hosts, as libpq finds them).
///
/// Connections are made when they are needed. While the database is away, callers get
/// `.unavailable` after at most the acquire time-out, one attempt at a time is made to reach it
/// with growing, jittered pauses of at most one second, and it is used again once it is back.
public final class PostgresPool: Sendable {
  /// A pool that has not connected yet. Without a logger it says nothing.
  public init(configuration: PostgresConfiguration, logger: Logger? = nil) {
  }

  /// Runs one statement on a connection of the pool.
  ///
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled.
  nonisolated(nonsending) public func query(_ query: Query) async throws -> Rows {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Lends a connection for several statements that are not one transaction.
  nonisolated(nonsending) public func withConnection<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. BEGIN
  /// travels with the first statement, so a transaction of one statement takes two round trips.
  ///
  /// - Throws: what `body` throws; ``PostgresError`` of kind `.outcomeUnknown` when the answer to
  ///   COMMIT did not come.
  nonisolated(nonsending) public func withTransaction<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Runs the statements as one transaction in one round trip. The first failure undoes all of
  /// them and is thrown.
  ///
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` when no answer came.
  nonisolated(nonsending) public func transaction(pipeline queries: [Query]) async throws -> [Rows] {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Refuses new work, waits for what is running, and closes every connection.
  public func close() async {
  }
}

/// A connection lent by a ``PostgresPool``. One task uses it at a time.
public final class PostgresConnection: Sendable {
  /// Runs one statement.
  ///
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled.
  nonisolated(nonsending) public func query(_ query: Query) async throws -> Rows {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Runs the statements in order, all sent at once and answered in one round trip. Outside of a
  /// transaction they are one transaction of their own. The first failure fails the rest and is thrown.
  nonisolated(nonsending) public func pipeline(_ queries: [Query]) async throws -> [Rows] {
    throw PostgresError(.misuse("not built yet"))
  }

  /// Inside of a transaction: runs statements that may fail without losing the transaction. When
  /// `body` throws, what it did is undone and its error is thrown on.
  nonisolated(nonsending) public func savepoint<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try await body(self)
  }
}

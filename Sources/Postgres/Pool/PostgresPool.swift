public import Logging
import Platform

/// A connection pool with a bounded wait queue, for one database (or for the first usable of several hosts).
///
/// Connections are opened on demand. While the database is unreachable, callers get `.unavailable` after at most the
/// acquire timeout, and the pool retries with exponential backoff of at most one second. Close a pool after use; its
/// connections stay open until then.
public final class PostgresPool: Sendable {
  private let driver: PoolDriver
  private let configuration: PostgresConfiguration
  private let observer: (any PostgresPoolObserver)?

  /// A pool that has not connected yet.
  public init(
    configuration: PostgresConfiguration, logger: Logger? = nil, observer: (any PostgresPoolObserver)? = nil
  ) {
    self.configuration = configuration
    self.observer = observer
    driver = PoolDriver(configuration: configuration, logger: logger)
  }

  /// Runs one statement on a connection of the pool.
  ///
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled. After `.unavailable` or
  ///   `.timedOut`, a statement may still have changed the database.
  nonisolated(nonsending) public func query(_ query: Query) async throws -> Rows {
    try await withConnection { try await $0.query(query) }
  }

  /// Leases a connection for several statements that are not one transaction. A connection that is released with an
  /// open transaction is closed, which rolls it back.
  ///
  /// `body` runs a second time on a new connection if the first one was unusable and nothing was committed: the server ended
  /// the session before a statement ran, or refuses writes. The second attempt starts within the acquire timeout.
  nonisolated(nonsending) public func withConnection<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    // A second attempt may take as long as the first, so a caller that has waited for long gets the error.
    let lastRepetition = MonotonicInstant.now.advanced(by: configuration.acquireTimeout)
    // Connections up to this id are unusable; set for the second attempt.
    var tooOld: Int?
    while true {
      do {
        let start = MonotonicInstant.now
        let connection = try await driver.acquire(after: tooOld)
        defer { driver.release(connection) }
        observer?.acquired(after: MonotonicInstant.now.duration(since: start))
        do {
          return try await body(connection)
        } catch let error as PostgresError
          where tooOld == nil && connection.canBeReplaced(after: error) && .now < lastRepetition
        {
          observer?.failed(error)
          tooOld = driver.lastConnection(before: error)
        }
      } catch {
        if let error = error as? PostgresError { observer?.failed(error) }
        throw error
      }
    }
  }

  /// Runs tasks where the responses of the database are read.
  public var executor: any TaskExecutor { driver.queue }

  /// The current use of the pool.
  public var status: PostgresPoolStatus { driver.status }

  /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. BEGIN is sent with the first
  /// statement, so a transaction of one statement takes two round trips.
  ///
  /// `body` runs a second time on another connection if the server ends the session before COMMIT or refuses writes. So its
  /// other side effects may happen twice.
  ///
  /// - Parameter isDryRun: whether to roll back at the end and still return what `body` returned.
  /// - Throws: the error of `body`; ``PostgresError`` of kind `.outcomeUnknown` if COMMIT got no response.
  nonisolated(nonsending) public func withTransaction<R>(
    isDryRun: Bool = false,
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    guard isDryRun else { return try await withConnection { try await $0.transaction(body) } }
    var preview: R?
    do {
      try await withConnection { connection in
        try await connection.transaction { connection in
          preview = try await body(connection)
          throw DryRunEnd()
        }
      }
    } catch let end as DryRunEnd {
      guard let preview else { throw end }
      return preview
    }
    throw DryRunEnd()
  }

  /// Ends the transaction of a dry run.
  private struct DryRunEnd: Error {}

  /// Runs the statements as one transaction in one round trip. The first failure rolls back all of them and is thrown.
  ///
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` if no response came.
  nonisolated(nonsending) public func transaction(pipeline queries: [Query]) async throws -> [Rows] {
    // A pipeline is an implicit transaction, so BEGIN and COMMIT are not needed.
    do {
      return try await withConnection { try await $0.pipeline(queries) }
    } catch let error as PostgresError {
      throw error.asOutcomeOfCommit
    }
  }

  /// Refuses new work, waits for leased connections, and closes all connections.
  ///
  /// - Parameter grace: the longest wait; connections that are leased after it are closed too.
  public func close(grace: Duration = .seconds(5)) async {
    await driver.close(grace: grace)
  }
}

/// Receives the events of a pool on any thread. It must not block.
public protocol PostgresPoolObserver: Sendable {
  /// A caller got a connection.
  func acquired(after wait: Duration)
  /// A caller got no connection, or its work failed.
  func failed(_ error: PostgresError)
}

/// The use of a pool at one instant.
public struct PostgresPoolStatus: Sendable, Hashable {
  /// The limit of connections.
  public var maximum: Int
  /// The number of open connections, leased or idle.
  public var open: Int
  /// The number of idle connections.
  public var idle: Int
  /// The number of waiting callers.
  public var waiting: Int
  /// The number of leased connections.
  public var inUse: Int { open - idle }
}

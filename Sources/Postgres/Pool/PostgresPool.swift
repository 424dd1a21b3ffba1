public import Logging

/// A bounded set of connections to one database (or to one of several hosts, as libpq finds them).
///
/// Connections are made when they are needed. While the database is away, callers get
/// `.unavailable` after at most the acquire time-out, one attempt at a time is made to reach it
/// with growing, jittered pauses of at most one second, and it is used again once it is back.
/// Close a pool when it is no longer needed; its connections stay open until then.
public final class PostgresPool: Sendable {
  private let lobby: Lobby
  private let configuration: PostgresConfiguration
  private let observer: (any PostgresPoolObserver)?

  /// A pool that has not connected yet. Without a logger it says nothing.
  public init(
    configuration: PostgresConfiguration, logger: Logger? = nil, observer: (any PostgresPoolObserver)? = nil
  ) {
    self.configuration = configuration
    self.observer = observer
    lobby = Lobby(configuration: configuration, logger: logger)
  }

  /// Runs one statement on a connection of the pool.
  ///
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled. A statement
  ///   that changes something may have done so when the error is `.unavailable` or `.timedOut`.
  nonisolated(nonsending) public func query(_ query: Query) async throws -> Rows {
    try await withConnection { try await $0.query(query) }
  }

  /// Lends a connection for several statements that are not one transaction. One that comes back
  /// in a transaction is closed, which rolls it back.
  ///
  /// Where the connection turns out to be of no use, and nothing of the work is in the database, `body` runs once more on
  /// a new connection: the server ended the session before it ran anything, or takes no writes any more. No second attempt
  /// begins later than the acquire time-out.
  nonisolated(nonsending) public func withConnection<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    // A caller that has waited for long is told of the failure: a second attempt may take as long again.
    let lastRepetition = Uptime.now + configuration.acquireTimeout
    // Set for the second attempt.
    var tooOld: Int?
    while true {
      do {
        let start = Uptime.now
        let connection = try await lobby.acquire(after: tooOld)
        defer { lobby.release(connection) }
        observer?.acquired(after: start.duration(to: .now))
        do {
          return try await body(connection)
        } catch let error as PostgresError
          where tooOld == nil && connection.canBeReplaced(after: error) && .now < lastRepetition
        {
          observer?.failed(error)
          tooOld = lobby.lastConnection(before: error)
        }
      } catch {
        if let error = error as? PostgresError { observer?.failed(error) }
        throw error
      }
    }
  }

  /// The threads that read what the server answers. A task that prefers one of them goes on where its answer was read;
  /// it must not wait for anything but its tasks' awaits, since others' answers wait meanwhile.
  public var executors: [any TaskExecutor] { lobby.threads }

  /// How the pool fares at this moment.
  public var status: PostgresPoolStatus { lobby.status }

  /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. BEGIN
  /// travels with the first statement, so a transaction of one statement takes two round trips.
  ///
  /// `body` runs once more, on another connection, where the server ends the session before COMMIT is sent, or takes no
  /// writes any more: it must do nothing but work with its connection that may not happen twice.
  ///
  /// - Throws: what `body` throws; ``PostgresError`` of kind `.outcomeUnknown` when the answer to
  ///   COMMIT did not come.
  nonisolated(nonsending) public func withTransaction<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try await withConnection { try await $0.transaction(body) }
  }

  /// Runs the statements as one transaction in one round trip. The first failure undoes all of
  /// them and is thrown.
  ///
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` when no answer came.
  nonisolated(nonsending) public func transaction(pipeline queries: [Query]) async throws -> [Rows] {
    // Between two Sync messages the server keeps one implicit transaction: BEGIN and COMMIT
    // would only add two statements to parse.
    do {
      return try await withConnection { try await $0.pipeline(queries) }
    } catch let error as PostgresError {
      throw error.asOutcomeOfCommit
    }
  }

  /// Refuses new work, waits for what is running, and closes every connection.
  ///
  /// - Parameter grace: how long what is running may take; after that it is cut off.
  public func close(grace: Duration = .seconds(5)) async {
    await lobby.close(grace: grace)
  }
}

import Logging
import Synchronization

/// A connection of a ``PostgresPool``. One task uses it at a time.
public final class PostgresConnection: Sendable {
  let id: Int
  let pipelined: PipelinedConnection
  let configuration: PostgresConfiguration
  private let logger: Logger?
  /// The number of savepoints so far, for their names.
  let savepoints = Atomic(0)
  /// Whether ``commit(after:)`` has succeeded in the current transaction.
  let hasCommitted = Atomic(false)

  /// Whether a COMMIT of the current transaction was sent and is not known to have failed.
  let mayHaveCommitted = Atomic(false)
  /// Whether a statement has run since the lease and was not rolled back: the work cannot be repeated.
  let hasRun = Atomic(false)

  /// Whether ``commit(after:)`` has succeeded in the current transaction.
  public var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }

  init(id: Int, pipelined: PipelinedConnection, configuration: PostgresConfiguration, logger: Logger?) {
    self.id = id
    self.pipelined = pipelined
    self.configuration = configuration
    self.logger = logger
  }

  /// Runs one statement.
  ///
  /// - Parameter timeout: for a slow statement; `nil` for the configuration's.
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled.
  nonisolated(nonsending) public func query(
    _ query: Query, timeout: Duration? = nil
  ) async throws -> Rows {
    let results = try await run(.queries([query]), timeout: timeout).results
    guard let rows = results.first else { throw PostgresError(.misuse("the server sent no result")) }
    return rows
  }

  /// Runs the statements in order, in one round trip. Outside of a transaction they form one transaction (PostgreSQL
  /// documentation, "Pipeline Mode"). After the first failure, which is thrown, the rest does not run.
  ///
  /// - Parameter timeout: for all statements together; `nil` for the configuration's.
  /// - Returns: the rows of each.
  nonisolated(nonsending) public func pipeline(
    _ queries: [Query], timeout: Duration? = nil
  ) async throws -> [Rows] {
    if queries.isEmpty { return [] }
    return try await run(.queries(queries), timeout: timeout).results
  }

  /// In a transaction: runs the statements as ``pipeline(_:)`` does and commits, in the same round trip. No statement may
  /// follow. When a statement fails, nothing is committed, and the transaction is in the failed state.
  ///
  /// - Returns: the rows of each.
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` if no response came, and with
  ///   ``PostgresError/endedTransaction`` if the commit failed.
  nonisolated(nonsending) public func commit(after queries: [Query]) async throws -> [Rows] {
    // A later cancellation would only make the outcome unknown.
    try Task.checkCancellation()
    // The server would roll back at COMMIT and report no error.
    if pipelined.isInFailedTransaction {
      throw PostgresError(.misuse("a statement of the transaction failed"))
    }
    return try await committing {
      do {
        let response = try await run(.queries(queries, commits: true), isCancellable: false)
        hasCommitted.store(true, ordering: .relaxed)
        try response.notices.checkCommit()
        return response.results
      } catch let error as PostgresError {
        throw error.asOutcomeOfCommit.ending(transaction: pipelined.isIdle)
      }
    }
  }

  /// Runs statements without values, as `psql` does. Outside of a transaction they form one transaction, unless they begin
  /// or end transactions.
  ///
  /// - Returns: the server's notices.
  @discardableResult
  nonisolated(nonsending) public func execute(
    script: String, timeout: Duration? = nil
  ) async throws -> [ServerReport] {
    // Pending statements cannot be sent with a script.
    if pipelined.hasPending { _ = try await run(.queries([])) }
    // The script may end the transaction.
    mayHaveCommitted.store(true, ordering: .relaxed)
    hasRun.store(true, ordering: .relaxed)
    return try await run(.script(script), timeout: timeout).notices
  }

  /// Resets the state of the last lease.
  func leased() -> PostgresConnection {
    hasRun.store(false, ordering: .relaxed)
    mayHaveCommitted.store(false, ordering: .relaxed)
    return self
  }

  /// Whether the work that failed can be repeated on another connection: this one is lost, and nothing was committed.
  func canBeReplaced(after error: PostgresError) -> Bool {
    error.isSafeToRepeat && !hasRun.load(ordering: .relaxed) && pipelined.isGone
  }

  /// Runs a batch, and repeats it if its statements must be prepared again.
  @discardableResult
  nonisolated(nonsending) func run(
    _ batch: Batch, timeout: Duration? = nil, isCancellable: Bool = true
  ) async throws -> PipelinedConnection.Response {
    let response = try await response(to: batch, timeout: timeout, isCancellable: isCancellable)
    if let failure = response.failure { throw failure }
    return response
  }

  /// Runs a batch as ``run(_:timeout:isCancellable:)`` does, and returns a failure in the response.
  nonisolated(nonsending) func response(
    to batch: Batch, timeout: Duration? = nil, isCancellable: Bool = true
  ) async throws -> PipelinedConnection.Response {
    let timeout = timeout ?? configuration.queryTimeout
    let hadRun = hasRun.load(ordering: .relaxed)
    // The batch counts as run until it is certain that it did not.
    hasRun.store(true, ordering: .relaxed)
    var response: PipelinedConnection.Response
    do {
      response = try await pipelined.run(batch, timeout: timeout, isCancellable: isCancellable)
    } catch let error as PostgresError where error.isSafeToRepeat {
      hasRun.store(hadRun, ordering: .relaxed)
      throw error
    }
    if response.failure?.isOfReadOnlyServer ?? false, !hadRun {
      // The batch was a transaction, or the first part of one, and was rolled back.
      hasRun.store(false, ordering: .relaxed)
      response.failure?.isSafeToRepeat = true
    }
    if let failure = response.failure, response.wasIdle, failure.isCuredByPreparingAgain {
      response = try await pipelined.run(batch, timeout: timeout, isCancellable: isCancellable)
    }
    log(response.notices)
    return response
  }

  private func log(_ notices: [ServerReport]) {
    for notice in notices {
      logger?.log(level: notice.severity == "WARNING" ? .warning : .debug, "\(notice.redactedMessage)")
    }
  }
}

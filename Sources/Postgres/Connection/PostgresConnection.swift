import Logging

/// The server or pooler at the other end of a connection.
public struct PostgresPeer: Sendable, Hashable {
  /// The IP address; empty for a Unix socket.
  public var address: String
  /// Whether TLS or GSSAPI encrypts the connection.
  public var isEncrypted: Bool

  /// - Parameter address: the IP address; empty for a Unix socket.
  public init(address: String, isEncrypted: Bool) {
    self.address = address
    self.isEncrypted = isEncrypted
  }
}

/// A connection of a ``PostgresPool``. One task uses it at a time.
public final class PostgresConnection: Sendable {
  let id: Int
  let pipelined: PipelinedConnection
  let configuration: PostgresConfiguration
  private let logger: Logger?

  /// Whether ``commit(after:)`` has succeeded in the current transaction.
  public var isCommitted: Bool { pipelined.withPipeline { $0.transaction.phase == .committed } }

  /// The server or pooler at the other end.
  public var peer: PostgresPeer { pipelined.withPipeline { $0.session.peer } }

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

  /// In a transaction: runs the statements as ``pipeline(_:)`` does and commits, in the same round trip. No statement
  /// may follow. When a statement fails, nothing is committed, and the transaction is in the failed state.
  ///
  /// - Returns: the rows of each.
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` if no response came, and with
  ///   ``PostgresError/endedTransaction`` if the commit failed.
  nonisolated(nonsending) public func commit(after queries: [Query]) async throws -> [Rows] {
    // A later cancellation would only make the outcome unknown.
    try Task.checkCancellation()
    return try await commit(with: .queries(queries, commits: true))
  }

  /// Runs statements without values, as `psql` does. Outside of a transaction they form one transaction, unless they
  /// begin or end transactions.
  ///
  /// - Returns: the server's notices.
  @discardableResult
  nonisolated(nonsending) public func execute(
    script: String, timeout: Duration? = nil
  ) async throws -> [ServerReport] {
    // Pending statements cannot be sent with a script.
    if pipelined.withPipeline({ !$0.transaction.pending.isEmpty }) { try await run(.queries([])) }
    return try await run(.script(script), timeout: timeout).notices
  }

  /// Whether the work that failed can be repeated on another connection: this one is lost, and nothing was committed.
  func canBeReplaced(after error: PostgresError) -> Bool {
    error.isSafeToRepeat && pipelined.isReplaceable
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
    var response = try await pipelined.run(batch, timeout: timeout, isCancellable: isCancellable)
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

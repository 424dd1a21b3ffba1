import Logging
import Synchronization

/// A connection lent by a ``PostgresPool``. One task uses it at a time.
public final class PostgresConnection: Sendable {
  let id: Int
  let channel: Channel
  let configuration: PostgresConfiguration
  private let logger: Logger?
  /// How many savepoints there have been.
  let savepoints = Atomic(0)
  /// The transaction that is running has been committed by its own statements.
  let hasCommitted = Atomic(false)

  /// A COMMIT of the transaction that is running was sent, and nothing says that it failed.
  let mayHaveCommitted = Atomic(false)
  /// Something has run since the connection was lent, and is not rolled back: the work cannot begin again elsewhere.
  let hasAnswer = Atomic(false)

  /// ``commit(after:)`` has succeeded in the transaction that is running.
  public var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }

  init(id: Int, channel: Channel, configuration: PostgresConfiguration, logger: Logger?) {
    self.id = id
    self.channel = channel
    self.configuration = configuration
    self.logger = logger
  }

  /// Runs one statement.
  ///
  /// - Parameter timeout: for one that is known to take long; `nil` for the configuration's.
  /// - Throws: ``PostgresError``, or `CancellationError` when the task is cancelled.
  nonisolated(nonsending) public func query(
    _ query: Query, timeout: Duration? = nil
  ) async throws -> Rows {
    let results = try await run(.queries([query]), timeout: timeout).results
    guard let rows = results.first else { throw PostgresError(.misuse("the server sent no result")) }
    return rows
  }

  /// Runs the statements in order, all sent at once and answered in one round trip. Outside of a
  /// transaction they are one transaction of their own (PostgreSQL documentation, "Pipelining").
  /// The first failure fails the rest and is thrown.
  ///
  /// - Returns: the rows of each.
  nonisolated(nonsending) public func pipeline(_ queries: [Query]) async throws -> [Rows] {
    if queries.isEmpty { return [] }
    return try await run(.queries(queries)).results
  }

  /// Inside of a transaction: runs the statements as ``pipeline(_:)`` does and commits, in the same round trip.
  /// Nothing can be done in the transaction after it. When a statement fails, nothing is committed, and what can be
  /// done is what can be done after any failure.
  ///
  /// - Returns: the rows of each.
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` when no answer came, and with
  ///   ``PostgresError/endedTransaction`` when it was the commit that failed.
  nonisolated(nonsending) public func commit(after queries: [Query]) async throws -> [Rows] {
    // From here on a cancellation could only make the outcome unknown.
    try Task.checkCancellation()
    // The server would answer COMMIT with ROLLBACK and call it no error.
    if channel.isInFailedTransaction { throw PostgresError(.misuse("a statement of the transaction failed")) }
    return try await committing {
      do {
        let answer = try await run(.queries(queries, commits: true), isCancellable: false)
        hasCommitted.store(true, ordering: .relaxed)
        try answer.notices.checkCommit()
        return answer.results
      } catch let error as PostgresError {
        throw error.asOutcomeOfCommit.ending(transaction: channel.isIdle)
      }
    }
  }

  /// Runs any number of statements without values, as `psql` would. Outside of a transaction they
  /// are one transaction, unless they say otherwise.
  ///
  /// - Returns: the server's notices.
  @discardableResult
  nonisolated(nonsending) public func execute(
    script: String, timeout: Duration? = nil
  ) async throws -> [ServerReport] {
    // Nothing can travel with a script.
    if channel.hasPending { _ = try await run(.queries([])) }
    // It may end the transaction, or be several.
    mayHaveCommitted.store(true, ordering: .relaxed)
    hasAnswer.store(true, ordering: .relaxed)
    return try await run(.script(script), timeout: timeout).notices
  }

  /// The connection, with nothing run on it for the caller that it is lent to.
  func lent() -> PostgresConnection {
    hasAnswer.store(false, ordering: .relaxed)
    mayHaveCommitted.store(false, ordering: .relaxed)
    return self
  }

  /// Whether work that failed can begin again on another connection: this one is of no use, and has left nothing behind.
  func canBeReplaced(after error: PostgresError) -> Bool {
    error.ranNothing && !hasAnswer.load(ordering: .relaxed) && channel.isGone
  }

  /// Runs a batch, once more if all that was wrong is that statements must be prepared anew.
  @discardableResult
  nonisolated(nonsending) func run(
    _ batch: Batch, timeout: Duration? = nil, isCancellable: Bool = true
  ) async throws -> Channel.Answer {
    let answer = try await answer(to: batch, timeout: timeout, isCancellable: isCancellable)
    if let failure = answer.failure { throw failure }
    return answer
  }

  /// The same, with a failure in the answer.
  nonisolated(nonsending) func answer(
    to batch: Batch, timeout: Duration? = nil, isCancellable: Bool = true
  ) async throws -> Channel.Answer {
    let timeout = timeout ?? configuration.queryTimeout
    let hadAnswer = hasAnswer.load(ordering: .relaxed)
    // The batch counts as run until the opposite is certain.
    hasAnswer.store(true, ordering: .relaxed)
    var answer: Channel.Answer
    do {
      answer = try await channel.run(batch, timeout: timeout, isCancellable: isCancellable)
    } catch let error as PostgresError where error.ranNothing {
      hasAnswer.store(hadAnswer, ordering: .relaxed)
      throw error
    }
    if answer.failure?.isOfReadOnlyServer ?? false, !hadAnswer {
      // A transaction of its own, or the first part of one: undone either way.
      hasAnswer.store(false, ordering: .relaxed)
      answer.failure?.ranNothing = true
    }
    if let failure = answer.failure, answer.wasIdle, failure.isCuredByPreparingAgain {
      answer = try await channel.run(batch, timeout: timeout, isCancellable: isCancellable)
    }
    log(answer.notices)
    return answer
  }

  private func log(_ notices: [ServerReport]) {
    for notice in notices {
      logger?.log(level: notice.severity == "WARNING" ? .warning : .debug, "\(notice.redactedMessage)")
    }
  }
}

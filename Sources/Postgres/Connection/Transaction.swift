extension PostgresConnection {
  /// Runs BEGIN, `body` and COMMIT; ROLLBACK when `body` throws.
  nonisolated(nonsending) func transaction<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try pipelined.withPipeline { try $0.transaction.begin() }
    do {
      let result = try await body(self)
      if pipelined.withPipeline({ $0.transaction.complete() }) { try await commit(with: .command(.commit)) }
      return result
    } catch {
      if pipelined.withPipeline({ $0.transaction.abandon($0.sessionStatus) }) {
        _ = try? await run(.command(.rollBack), isCancellable: false)
      }
      let isSafeToRepeat = pipelined.withPipeline { $0.transaction.end(with: error, $0.sessionStatus) }
      guard isSafeToRepeat, var lost = error as? PostgresError else { throw error }
      lost.isSafeToRepeat = true
      throw lost
    }
  }

  /// Runs a batch that ends with COMMIT. A cancellation would only make the outcome unknown.
  ///
  /// - Throws: ``PostgresError``; of kind `.outcomeUnknown` if the transaction may be committed.
  @discardableResult
  nonisolated(nonsending) func commit(with batch: Batch) async throws -> [Rows] {
    do {
      let response = try await run(batch, isCancellable: false)
      try response.notices.checkCommit()
      return response.results
    } catch let error as PostgresError {
      throw pipelined.withPipeline { $0.transaction.outcome(of: error, $0.sessionStatus) }
    }
  }
}

extension [ServerReport] {
  /// - Throws: ``PostgresError`` of kind `.outcomeUnknown` if a commit has not reached the standby.
  fileprivate func checkCommit() throws {
    guard let notice = first(where: \.isLocalCommit) else { return }
    throw PostgresError(.outcomeUnknown(notice.redactedMessage), report: notice)
  }
}

extension ServerReport {
  /// Whether the wait for a synchronous standby (`SyncRepWaitForLSN`) was cancelled: the primary has committed and
  /// reports success, but a failover would undo the commit. The message is translated; the routine is not.
  fileprivate var isLocalCommit: Bool {
    severity == "WARNING" && routine == "SyncRepWaitForLSN"
  }
}

extension PostgresError {
  /// The error of a closed connection, as the error of a batch that was not sent.
  var beforeSending: PostgresError {
    var error = PostgresError(kind, report: report)
    error.isSafeToRepeat = isUnavailable
    return error
  }

  /// The error of a commit: if the response was lost, the outcome is unknown.
  var asOutcomeOfCommit: PostgresError { wasSent ? asUnknownOutcome : self }

  /// The error of a commit that has no response.
  var asUnknownOutcome: PostgresError {
    isUnavailable ? PostgresError(.outcomeUnknown(description), report: report, wasSent: wasSent) : self
  }
}

/// The result of statements that ran under a savepoint, which is still open.
public struct SavepointAttempt: Sendable {
  let savepoint: Int
  /// The rows of each.
  public let rows: [Rows]
}

extension PostgresConnection {
  /// In a transaction: runs `body` under a savepoint. When it throws, its statements are rolled back, and the error is
  /// rethrown.
  ///
  /// - Parameter attempt: an open savepoint to continue, whose statements are rolled back too.
  nonisolated(nonsending) public func savepoint<R>(
    continuing attempt: SavepointAttempt? = nil,
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    let savepoint = try attempt?.savepoint ?? pipelined.withPipeline { try $0.transaction.openSavepoint() }
    do {
      let result = try await body(self)
      pipelined.withPipeline { $0.transaction.closeSavepoint(savepoint) }
      return result
    } catch {
      await rollBack(to: savepoint)
      throw error
    }
  }

  /// In a transaction: runs `queries` and, in the same round trip, `more` under a savepoint. A failure in `more` rolls
  /// back only `more`.
  ///
  /// - Parameter time: added to the timeout because of `more`.
  /// - Returns: the rows of `queries`; and the open savepoint of `more`, to be continued in
  ///   ``savepoint(continuing:_:)``, or the error for which it was rolled back.
  /// - Throws: as ``pipeline(_:)``, for `queries`, a lost connection or an ended transaction.
  nonisolated(nonsending) public func pipeline(
    _ queries: [Query], attempting more: [Query], within time: Duration = .zero
  ) async throws -> (answers: [Rows], attempt: Result<SavepointAttempt, PostgresError>) {
    let savepoint = try pipelined.withPipeline { try $0.transaction.nextSavepoint() }
    let response = try await response(
      to: .attempt(queries, savepoint: savepoint, more), timeout: configuration.queryTimeout + time)
    let answers = Array(response.results.prefix(queries.count))
    guard let failure = response.failure else {
      let rows = Array(response.results.dropFirst(queries.count))
      return (answers, .success(SavepointAttempt(savepoint: savepoint, rows: rows)))
    }
    // All of `queries` have rows, so the savepoint or one of `more` failed.
    guard answers.count == queries.count else { throw failure }
    await rollBack(to: savepoint)
    // A lost connection or an ended transaction affects `queries` too.
    if let closeError = pipelined.closeError { throw closeError }
    guard pipelined.withPipeline({ $0.sessionStatus == .open }) else { throw failure }
    return (answers, .failure(failure))
  }

  private nonisolated(nonsending) func rollBack(to savepoint: Int) async {
    if pipelined.withPipeline({ $0.transaction.abandonSavepoint(savepoint, $0.sessionStatus) }) {
      _ = try? await run(.command(.rollBackTo(savepoint)), isCancellable: false)
    }
  }
}

import Synchronization

extension PostgresConnection {
  /// Runs BEGIN, `body` and COMMIT; ROLLBACK when `body` throws.
  nonisolated(nonsending) func transaction<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    pipelined.enqueue(Self.begin)
    hasCommitted.store(false, ordering: .relaxed)
    mayHaveCommitted.store(false, ordering: .relaxed)
    let hadRun = hasRun.load(ordering: .relaxed)
    do {
      let result: R
      do {
        result = try await body(self)
      } catch {
        await rollBack()
        throw error
      }
      try await commit()
      return result
    } catch let error as PostgresError where wasRolledBack(error) {
      hasRun.store(hadRun, ordering: .relaxed)
      var error = error
      error.isSafeToRepeat = true
      throw error
    }
  }

  /// Whether the transaction was certainly not committed: the connection was lost before COMMIT, or the server refuses
  /// writes.
  private func wasRolledBack(_ error: PostgresError) -> Bool {
    if mayHaveCommitted.load(ordering: .relaxed) { return false }
    switch error.kind {
    case .unavailable: return pipelined.closeError != nil
    case .server: return error.isOfReadOnlyServer || error.endedSession && pipelined.closeError != nil
    default: return false
    }
  }

  private static let begin = PipelineState.begin

  private nonisolated(nonsending) func rollBack() async {
    // Without a connection there is nothing to do: the server rolls back when a connection is closed.
    if pipelined.withdraw(Self.begin) || pipelined.closeError != nil { return }
    pipelined.removePending()
    // The commit has succeeded or failed, so no transaction is open.
    if pipelined.isIdle { return }
    _ = try? await run(.command("rollback"), isCancellable: false)
  }

  private nonisolated(nonsending) func commit() async throws {
    if pipelined.withdraw(Self.begin) || isCommitted { return }
    if pipelined.isInFailedTransaction {
      // The server would roll back at COMMIT and report no error.
      await rollBack()
      throw PostgresError(.misuse("a statement of the transaction failed and its error was ignored"))
    }
    // A later cancellation would only make the outcome unknown.
    try await committing {
      do {
        try await run(.command("commit"), isCancellable: false).notices.checkCommit()
      } catch let error as PostgresError {
        throw error.asOutcomeOfCommit
      }
    }
  }
}

extension PostgresConnection {
  /// Runs `body`, which sends COMMIT, and records whether the transaction may be committed.
  nonisolated(nonsending) func committing<R>(
    _ body: nonisolated(nonsending) () async throws -> R
  ) async throws -> R {
    let mightHave = mayHaveCommitted.exchange(true, ordering: .relaxed)
    do {
      return try await body()
    } catch let error as PostgresError {
      if case .outcomeUnknown = error.kind { throw error }
      mayHaveCommitted.store(mightHave, ordering: .relaxed)
      // An earlier COMMIT of the same transaction had no response.
      throw mightHave && error.isUnavailable ? PostgresError(.outcomeUnknown(error.description)) : error
    }
  }
}

extension [ServerReport] {
  /// - Throws: ``PostgresError`` of kind `.outcomeUnknown` if a commit has not reached the standby.
  func checkCommit() throws {
    guard let notice = first(where: \.isLocalCommit) else { return }
    throw PostgresError(.outcomeUnknown(notice.redactedMessage), report: notice)
  }
}

extension ServerReport {
  /// Whether the wait for a synchronous standby (`SyncRepWaitForLSN`) was cancelled: the primary has committed and reports
  /// success, but a failover would undo the commit. The message is translated; the routine is not.
  fileprivate var isLocalCommit: Bool {
    severity == "WARNING" && routine == "SyncRepWaitForLSN"
  }
}

extension PostgresError {
  /// The same error with the information whether the transaction has ended.
  func ending(transaction isOver: Bool) -> PostgresError {
    var error = self
    error.endedTransaction = isOver
    return error
  }

  /// The error of a closed connection, as the error of a batch that was not sent.
  var beforeSending: PostgresError {
    var error = PostgresError(kind, report: report)
    error.isSafeToRepeat = isUnavailable
    return error
  }

  /// The error of a commit: if the response was lost, the outcome is unknown.
  var asOutcomeOfCommit: PostgresError {
    guard wasSent, isUnavailable else { return self }
    return PostgresError(.outcomeUnknown(description), report: report, wasSent: true)
  }
}

/// The result of statements that ran under a savepoint, which is still open.
public struct SavepointAttempt: Sendable {
  let name: String
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
    let name = attempt?.name ?? nextSavepoint()
    if attempt == nil { pipelined.enqueue("savepoint \(name)") }
    do {
      let result = try await body(self)
      if isCommitted { return result }
      // Sent with the next statement, which may be COMMIT.
      if !pipelined.withdraw("savepoint \(name)") { pipelined.enqueue("release savepoint \(name)") }
      return result
    } catch {
      if !pipelined.withdraw("savepoint \(name)") { await rollBack(to: name) }
      throw error
    }
  }

  /// In a transaction: runs `queries` and, in the same round trip, `more` under a savepoint. A failure in `more` rolls back
  /// only `more`.
  ///
  /// - Parameter time: added to the timeout because of `more`.
  /// - Returns: the rows of `queries`; and the open savepoint of `more`, to be continued in ``savepoint(continuing:_:)``, or
  ///   the error for which it was rolled back.
  /// - Throws: as ``pipeline(_:)``, for `queries`, a lost connection or an ended transaction.
  nonisolated(nonsending) public func pipeline(
    _ queries: [Query], attempting more: [Query], within time: Duration = .zero
  ) async throws -> (answers: [Rows], attempt: Result<SavepointAttempt, PostgresError>) {
    let name = nextSavepoint()
    let response = try await response(
      to: .attempt(queries, savepoint: name, more), timeout: configuration.queryTimeout + time)
    let answers = Array(response.results.prefix(queries.count))
    guard let failure = response.failure else {
      let rows = Array(response.results.dropFirst(queries.count))
      return (answers, .success(SavepointAttempt(name: name, rows: rows)))
    }
    // All of `queries` have rows, so the savepoint or one of `more` failed.
    guard answers.count == queries.count else { throw failure }
    await rollBack(to: name)
    // A lost connection or an ended transaction affects `queries` too.
    if let closeError = pipelined.closeError { throw closeError }
    if pipelined.isInFailedTransaction || pipelined.isIdle { throw failure }
    return (answers, .failure(failure))
  }

  private nonisolated(nonsending) func rollBack(to name: String) async {
    if pipelined.closeError != nil || pipelined.isIdle { return }
    _ = try? await run(.command("rollback to savepoint \(name)"), isCancellable: false)
  }

  /// A new name for each savepoint, so that a rollback never reaches another one.
  private func nextSavepoint() -> String { "savepoint_\(savepoints.add(1, ordering: .relaxed).newValue)" }
}

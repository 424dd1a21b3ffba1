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

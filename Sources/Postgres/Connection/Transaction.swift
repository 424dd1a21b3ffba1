import Synchronization

extension PostgresConnection {
  /// BEGIN, `body`, COMMIT; ROLLBACK when `body` throws.
  nonisolated(nonsending) func transaction<R>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    channel.enqueue(Self.begin)
    hasCommitted.store(false, ordering: .relaxed)
    mayHaveCommitted.store(false, ordering: .relaxed)
    let hadAnswer = hasAnswer.load(ordering: .relaxed)
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
    } catch let error as PostgresError where leavesNothing(error) {
      hasAnswer.store(hadAnswer, ordering: .relaxed)
      var error = error
      error.ranNothing = true
      throw error
    }
  }

  /// The transaction ended with its connection, or because the server takes no writes any more, and it is certain that it
  /// was not committed.
  private func leavesNothing(_ error: PostgresError) -> Bool {
    if mayHaveCommitted.load(ordering: .relaxed) { return false }
    switch error.kind {
    case .unavailable: return channel.ending != nil
    case .server: return error.isOfReadOnlyServer || error.endedSession && channel.ending != nil
    default: return false
    }
  }

  private static let begin = ChannelState.begin

  private nonisolated(nonsending) func rollBack() async {
    // A connection that cannot roll back is not reusable, and the server rolls back when it goes.
    if channel.withdraw(Self.begin) || channel.ending != nil { return }
    channel.forgetPending()
    // Its commit has succeeded, or failed: either way it is over.
    if channel.isIdle { return }
    _ = try? await run(.command("rollback"), isCancellable: false)
  }

  private nonisolated(nonsending) func commit() async throws {
    if channel.withdraw(Self.begin) || isCommitted { return }
    if channel.isInFailedTransaction {
      // The server would answer COMMIT with ROLLBACK and call it no error.
      await rollBack()
      throw PostgresError(.misuse("a statement of the transaction failed and its error was swallowed"))
    }
    // From here on a cancellation could only make the outcome unknown.
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
  /// Runs what sends COMMIT. Unless its failure tells that nothing was committed, that stays possible from then on.
  nonisolated(nonsending) func committing<R>(
    _ body: nonisolated(nonsending) () async throws -> R
  ) async throws -> R {
    let mightHave = mayHaveCommitted.exchange(true, ordering: .relaxed)
    do {
      return try await body()
    } catch let error as PostgresError {
      if case .outcomeUnknown = error.kind { throw error }
      mayHaveCommitted.store(mightHave, ordering: .relaxed)
      // An earlier COMMIT of the same transaction had no answer.
      throw mightHave && error.isUnavailable ? PostgresError(.outcomeUnknown(error.description)) : error
    }
  }
}

extension [ServerReport] {
  /// - Throws: ``PostgresError`` of kind `.outcomeUnknown` where a commit has not reached the standby.
  func checkCommit() throws {
    guard let notice = first(where: \.saysThatCommitIsLocal) else { return }
    throw PostgresError(.outcomeUnknown(notice.redactedMessage), report: notice)
  }
}

extension ServerReport {
  /// Somebody cancelled the wait for a synchronous standby (`SyncRepWaitForLSN`): the primary has committed and calls
  /// it a success, but a failover would undo it. The message is translated; the routine is not.
  fileprivate var saysThatCommitIsLocal: Bool {
    severity == "WARNING" && routine == "SyncRepWaitForLSN"
  }
}

extension PostgresError {
  /// The same error, of which it is known whether a transaction is left in which more can be done.
  func ending(transaction isOver: Bool) -> PostgresError {
    var error = self
    error.endedTransaction = isOver
    return error
  }

  /// Why a connection cannot be used, as the error of a batch that was never sent on it.
  var beforeSending: PostgresError {
    var error = PostgresError(kind, report: report)
    error.ranNothing = isUnavailable
    return error
  }

  /// The same error for somebody who asked for a commit: if the answer was lost after the request
  /// had been sent, nobody here knows whether it was carried out.
  var asOutcomeOfCommit: PostgresError {
    guard wasSent, isUnavailable else { return self }
    return PostgresError(.outcomeUnknown(description), report: report, wasSent: true)
  }
}

import Synchronization

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

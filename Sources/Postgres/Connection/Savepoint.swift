import Synchronization

/// Statements that were sent under a savepoint, which is still open.
public struct SavepointAttempt: Sendable {
  let name: String
  /// The rows of each.
  public let rows: [Rows]
}

extension PostgresConnection {
  /// Inside of a transaction: runs statements that may fail without losing the transaction. When
  /// `body` throws, what it did is undone and its error is thrown on.
  ///
  /// - Parameter attempt: what `body` goes on with, and what is undone with it.
  nonisolated(nonsending) public func savepoint<R>(
    continuing attempt: SavepointAttempt? = nil,
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    let name = attempt?.name ?? nextSavepoint()
    if attempt == nil { channel.enqueue("savepoint \(name)") }
    do {
      let result = try await body(self)
      if isCommitted { return result }
      // Travels with what comes next, be it COMMIT.
      if !channel.withdraw("savepoint \(name)") { channel.enqueue("release savepoint \(name)") }
      return result
    } catch {
      if !channel.withdraw("savepoint \(name)") { await rollBack(to: name) }
      throw error
    }
  }

  /// Inside of a transaction: runs `queries` and, in the same round trip, `more` under a savepoint. A failure among
  /// `more` costs nothing but these.
  ///
  /// - Parameter time: how much longer all may take for the sake of `more`.
  /// - Returns: the rows of `queries`; and what `more` came to, to be gone on with in ``savepoint(continuing:_:)``, or
  ///   why it was undone.
  /// - Throws: as ``pipeline(_:)``, for `queries` and for a connection or a transaction that is over.
  nonisolated(nonsending) public func pipeline(
    _ queries: [Query], attempting more: [Query], within time: Duration = .zero
  ) async throws -> (answers: [Rows], attempt: Result<SavepointAttempt, PostgresError>) {
    let name = nextSavepoint()
    let answer = try await answer(
      to: .attempt(queries, savepoint: name, more), timeout: configuration.queryTimeout + time)
    let answers = Array(answer.results.prefix(queries.count))
    guard let failure = answer.failure else {
      let rows = Array(answer.results.dropFirst(queries.count))
      return (answers, .success(SavepointAttempt(name: name, rows: rows)))
    }
    // As many rows as there are `queries`: it was one of `more` that failed, or the savepoint.
    guard answers.count == queries.count else { throw failure }
    await rollBack(to: name)
    // A connection that is lost meanwhile is no failure of `more`, and a transaction that is over is one of `queries` too.
    if let ending = channel.ending { throw ending }
    if channel.isInFailedTransaction || channel.isIdle { throw failure }
    return (answers, .failure(failure))
  }

  private nonisolated(nonsending) func rollBack(to name: String) async {
    if channel.ending != nil || channel.isIdle { return }
    _ = try? await run(.command("rollback to savepoint \(name)"), isCancellable: false)
  }

  /// A name for each: what is undone must never be another's work.
  private func nextSavepoint() -> String { "savepoint_\(savepoints.add(1, ordering: .relaxed).newValue)" }
}

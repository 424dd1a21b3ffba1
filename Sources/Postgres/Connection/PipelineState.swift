import CLibpq

/// The protocol state of one connection. It is used only under the lock of its ``PipelinedConnection``.
struct PipelineState {
  let session: LibpqSession
  let notices: NoticeCollector
  let usesPreparedStatements: Bool
  var statements: StatementCache
  /// The expected results of the current batch.
  var awaited: PipelineResults?
  /// Statements that are sent with the next batch: BEGIN, SAVEPOINT, RELEASE.
  var pending: [String] = []
  /// The error that closed the connection; nil while it is open.
  var closed: PostgresError?
  /// Whether the pool closes the connection when it is released.
  var isRetired = false

  init(session: LibpqSession, configuration: PostgresConfiguration) {
    self.session = session
    notices = NoticeCollector()
    usesPreparedStatements = configuration.usesPreparedStatements
    statements = StatementCache(capacity: configuration.maximumPreparedStatements)
    notices.register(with: session)
  }

  /// Sends a batch.
  ///
  /// - Returns: false if libpq could not accept it; the connection is then unusable.
  mutating func send(_ batch: Batch) -> Bool {
    var steps: [PipelineResults.Step] = []
    var isSent = closeEvicted(&steps)
    switch batch {
    case .queries(let queries, let commits):
      isSent = isSent && sendPending(&steps)
      for query in queries { isSent = isSent && send(query, &steps) }
      if commits { isSent = isSent && send(Self.commit, expecting: .commandTag("COMMIT"), &steps) }
      isSent = isSent && session.sync()
      steps.append(.sync(isFatal: true))
      awaited = PipelineResults(steps, resultCount: queries.count)
    case .attempt(let queries, let savepoint, let more):
      isSent = isSent && sendPending(&steps)
      for query in queries { isSent = isSent && send(query, &steps) }
      isSent = isSent && session.send(statement: "savepoint \(savepoint)")
      steps.append(.command)
      for query in more { isSent = isSent && send(query, &steps) }
      isSent = isSent && session.sync()
      steps.append(.sync(isFatal: true))
      awaited = PipelineResults(steps, resultCount: queries.count + more.count)
    case .command(let statement):
      isSent = isSent && sendPending(&steps) && session.send(statement: statement) && session.sync()
      steps += [.command, .sync(isFatal: true)]
      awaited = PipelineResults(steps)
    case .script(let script):
      isSent = session.exitPipeline() && session.send(script: script)
      awaited = PipelineResults([.script])
    }
    return isSent
  }

  private mutating func sendPending(_ steps: inout [PipelineResults.Step]) -> Bool {
    defer { pending.removeAll(keepingCapacity: true) }
    for statement in pending {
      if statement == Self.begin {
        guard send(Query(unescaped: statement), expecting: .commandTag("BEGIN"), &steps) else { return false }
      } else {
        guard session.send(statement: statement) else { return false }
        steps.append(.command)
      }
    }
    return true
  }

  /// BEGIN and COMMIT are prepared, because the server parses them longer than it runs them. If a pooler switches to a
  /// server process where the name belongs to another client's statement, the command tag differs.
  static let begin = "begin"
  private static let commit: Query = "commit"

  /// Closes the statements that the cache evicted. They have a pipeline of their own, so that a failure does not affect the
  /// caller's batch, and are not sent in a transaction, which a failure would abort.
  private mutating func closeEvicted(_ steps: inout [PipelineResults.Step]) -> Bool {
    if statements.evicted.isEmpty || !session.isIdle { return true }
    for name in statements.takeEvicted() {
      guard session.send(statement: "deallocate \(name)"), session.sync() else { return false }
      steps += [.command, .sync(isFatal: false)]
    }
    return true
  }

  private mutating func send(
    _ query: Query, expecting step: PipelineResults.Step = .query, _ steps: inout [PipelineResults.Step]
  ) -> Bool {
    guard usesPreparedStatements else {
      steps.append(step)
      return session.send(query)
    }
    if let statement = statements.statement(for: query) {
      steps.append(step)
      return session.sendPrepared(statement.name, query.parameters)
    }
    let statement = statements.insert(query)
    steps += [.preparation(statement), step]
    return session.prepare(query, name: statement.name)
      && session.sendPrepared(statement.name, query.parameters)
  }

  /// Reads from the socket and processes the results.
  ///
  /// - Returns: false if the connection is lost.
  mutating func receive() -> Bool {
    let isConnected = session.consumeInput()
    guard var awaited else {
      // Parses notices. While no query runs, libpq reports a fatal error as a notice, and the end of file may come later.
      _ = session.hasResult
      return isConnected && !session.isBroken && !notices.endSession
    }
    self.awaited = nil
    while !awaited.isFinished, !awaited.isUnusable, session.hasResult {
      // After the loss of the connection, libpq returns an error result at each call.
      let isLast = session.isBroken
      awaited.receive(session.nextResult())
      if isLast { break }
    }
    for statement in awaited.unprepared { statements.forget(statement) }
    let isUsable = isConnected && !session.isBroken && !awaited.isUnusable
    self.awaited = awaited
    return isUsable
  }

  /// Removes and returns the results when they are complete.
  mutating func takeFinished() -> PipelineResults? {
    guard let finished = awaited, finished.isFinished else { return nil }
    awaited = nil
    // Only a script runs outside of pipeline mode.
    if PQpipelineStatus(session.handle) == PQ_PIPELINE_OFF, !session.enterPipeline() { isRetired = true }
    if let failure = finished.failure { handle(failure) }
    return finished
  }

  private mutating func handle(_ failure: PostgresError) {
    // A read-only server was demoted; the next connection goes to the new primary.
    if failure.isOfReadOnlyServer { isRetired = true }
    if failure.isStatementForgotten { statements.removeAll(serverForgotToo: true) }
    if failure.isPlanOutdated { statements.removeAll(serverForgotToo: false) }
  }
}

extension PostgresError {
  /// Whether the server refuses writes: it was demoted to a standby, or set to read-only.
  var isOfReadOnlyServer: Bool { sqlState == "25006" }

  /// "prepared statement does not exist": after DISCARD ALL, or when a pooler has switched to another server process.
  fileprivate var isStatementForgotten: Bool { sqlState == "26000" }

  /// "cached plan must not change result type": a column was added or changed. Other errors have the same SQLSTATE, so the
  /// server's function is compared too.
  fileprivate var isPlanOutdated: Bool { sqlState == "0A000" && report?.routine == "RevalidateCachedQuery" }

  /// Whether the batch would succeed after the statements are prepared again.
  var isCuredByPreparingAgain: Bool { isStatementForgotten || isPlanOutdated }
}

import CLibpq

/// One connection's protocol: what is sent, what has come back. Used only under its channel's lock.
struct ChannelState {
  let session: LibpqSession
  let notices: NoticeCollector
  let usesPreparedStatements: Bool
  var statements: StatementCache
  /// What is on its way; one at a time.
  var exchange: Exchange?
  /// Statements that travel with the next batch: BEGIN, SAVEPOINT, RELEASE.
  var pending: [String] = []
  /// Nil while the connection is open, else why it is not.
  var closed: PostgresError?
  /// The connection works but should not be used for something else: it is to be closed when it
  /// comes back.
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
  /// - Returns: false when libpq could not take it: the connection is of no use any more.
  mutating func send(_ batch: Batch) -> Bool {
    var steps: [Exchange.Step] = []
    var isTaken = sendAbandoned(&steps)
    switch batch {
    case .queries(let queries, let commits):
      isTaken = isTaken && sendPending(&steps)
      for query in queries { isTaken = isTaken && send(query, &steps) }
      if commits { isTaken = isTaken && send(Self.commit, answeredBy: .word("COMMIT"), &steps) }
      isTaken = isTaken && session.sync()
      steps.append(.sync(isFatal: true))
      exchange = Exchange(steps, resultCount: queries.count)
    case .attempt(let queries, let savepoint, let more):
      isTaken = isTaken && sendPending(&steps)
      for query in queries { isTaken = isTaken && send(query, &steps) }
      isTaken = isTaken && session.send(statement: "savepoint \(savepoint)")
      steps.append(.command)
      for query in more { isTaken = isTaken && send(query, &steps) }
      isTaken = isTaken && session.sync()
      steps.append(.sync(isFatal: true))
      exchange = Exchange(steps, resultCount: queries.count + more.count)
    case .command(let statement):
      isTaken = isTaken && sendPending(&steps) && session.send(statement: statement) && session.sync()
      steps += [.command, .sync(isFatal: true)]
      exchange = Exchange(steps)
    case .script(let script):
      isTaken = session.exitPipeline() && session.send(script: script)
      exchange = Exchange([.script])
    }
    return isTaken
  }

  private mutating func sendPending(_ steps: inout [Exchange.Step]) -> Bool {
    defer { pending.removeAll(keepingCapacity: true) }
    for statement in pending {
      if statement == Self.begin {
        guard send(Query(unescaped: statement), answeredBy: .word("BEGIN"), &steps) else { return false }
      } else {
        guard session.send(statement: statement) else { return false }
        steps.append(.command)
      }
    }
    return true
  }

  /// To read these two takes the server longer than to carry them out, and every transaction has them, so they are
  /// prepared. Should a pooler lend us a server process where another client's statement has the name, the word that comes
  /// back is another.
  static let begin = "begin"
  private static let commit: Query = "commit"

  /// Closes statements that the cache let go. In a pipeline of their own, so that the failure of
  /// one does not touch the caller's; not in a transaction, which it would break.
  private mutating func sendAbandoned(_ steps: inout [Exchange.Step]) -> Bool {
    if statements.abandoned.isEmpty || !session.isIdle { return true }
    for name in statements.takeAbandoned() {
      guard session.send(statement: "deallocate \(name)"), session.sync() else { return false }
      steps += [.command, .sync(isFatal: false)]
    }
    return true
  }

  private mutating func send(
    _ query: Query, answeredBy answer: Exchange.Step = .query, _ steps: inout [Exchange.Step]
  ) -> Bool {
    guard usesPreparedStatements else {
      steps.append(answer)
      return session.send(query)
    }
    if let statement = statements.statement(for: query) {
      steps.append(answer)
      return session.sendPrepared(statement.name, query.parameters)
    }
    let statement = statements.insert(query)
    steps += [.preparation(statement), answer]
    return session.prepare(query, name: statement.name)
      && session.sendPrepared(statement.name, query.parameters)
  }

  /// Takes what the socket has.
  ///
  /// - Returns: false when the connection is lost.
  mutating func receive() -> Bool {
    let isConnected = session.consumeInput()
    guard var exchange else {
      // Parses notices. libpq takes a fatal error for one while nothing is asked; the end of the stream may follow late.
      _ = session.hasResult
      return isConnected && !session.isBroken && !notices.endSession
    }
    self.exchange = nil
    while !exchange.isFinished, !exchange.isUnusable, session.hasResult {
      // After a loss libpq makes up one result that tells of it, and would not stop doing so.
      let isLast = session.isBroken
      exchange.receive(session.nextResult())
      if isLast { break }
    }
    for statement in exchange.unprepared { statements.forget(statement) }
    let isUsable = isConnected && !session.isBroken && !exchange.isUnusable
    self.exchange = exchange
    return isUsable
  }

  /// Ends a finished exchange.
  mutating func takeFinished() -> Exchange? {
    guard let finished = exchange, finished.isFinished else { return nil }
    exchange = nil
    // A script runs outside of pipeline mode; everything else inside.
    if PQpipelineStatus(session.handle) == PQ_PIPELINE_OFF, !session.enterPipeline() { isRetired = true }
    if let failure = finished.failure { learn(from: failure) }
    return finished
  }

  private mutating func learn(from failure: PostgresError) {
    // A server that became read-only has been demoted: libpq finds the new one, if there is one.
    if failure.isOfReadOnlyServer { isRetired = true }
    if failure.isStatementForgotten { statements.removeAll(serverForgotToo: true) }
    if failure.isPlanOutdated { statements.removeAll(serverForgotToo: false) }
  }
}

extension PostgresError {
  /// The server refuses to write: it has been demoted to a standby, or set to read-only.
  var isOfReadOnlyServer: Bool { sqlState == "25006" }

  /// "prepared statement does not exist": somebody said DISCARD ALL, or a pooler in between
  /// gave us another server process.
  fileprivate var isStatementForgotten: Bool { sqlState == "26000" }

  /// "cached plan must not change result type": a column was added or changed since. The SQLSTATE
  /// is shared with other unsupported features, so the server's function tells it apart.
  fileprivate var isPlanOutdated: Bool { sqlState == "0A000" && report?.routine == "RevalidateCachedQuery" }

  /// The same batch would succeed with statements prepared anew.
  var isCuredByPreparingAgain: Bool { isStatementForgotten || isPlanOutdated }
}

import CLibpq

/// The protocol state of one connection. It is used only under the lock of its ``PipelinedConnection``.
struct PipelineState {
  let session: LibpqSession
  let notices: NoticeCollector
  let usesPreparedStatements: Bool
  var statements: StatementCache
  /// The expected results of the current batch.
  var awaited: PipelineResults?
  var transaction = TransactionState()
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

  /// The transaction of the session.
  var sessionStatus: SessionStatus { closed == nil ? session.status : .closed }

  /// Sends a batch, which ``transaction`` has accepted.
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
      isSent = isSent && session.send(statement: TransactionStatement.savepoint(savepoint).text)
      steps.append(.command)
      for query in more { isSent = isSent && send(query, &steps) }
      isSent = isSent && session.sync()
      steps.append(.sync(isFatal: true))
      awaited = PipelineResults(steps, resultCount: queries.count + more.count)
    case .command(let statement):
      isSent = isSent && sendPending(&steps) && session.send(statement: statement.text) && session.sync()
      steps += [.command, .sync(isFatal: true)]
      awaited = PipelineResults(steps)
    case .script(let script):
      isSent = session.exitPipeline() && session.send(script: script)
      awaited = PipelineResults([.script])
    }
    return isSent
  }

  private mutating func sendPending(_ steps: inout [PipelineResults.Step]) -> Bool {
    defer { transaction.sentPending() }
    for statement in transaction.pending {
      if statement == .begin {
        guard send(Self.begin, expecting: .commandTag("BEGIN"), &steps) else { return false }
      } else {
        guard session.send(statement: statement.text) else { return false }
        steps.append(.command)
      }
    }
    return true
  }

  /// BEGIN and COMMIT are prepared, because the server parses them longer than it runs them. If a pooler switches to a
  /// server process where the name belongs to another client's statement, the command tag differs.
  ///
  /// The locks count on READ COMMITTED: a statement after a lock was granted reads what its last holder committed. A
  /// database or a role may have another default level.
  private static let begin: Query = "begin isolation level read committed"
  private static let commit: Query = "commit"

  /// Closes the statements that the cache evicted. They have a pipeline of their own, so that a failure does not affect
  /// the caller's batch, and are not sent in a transaction, which a failure would abort.
  private mutating func closeEvicted(_ steps: inout [PipelineResults.Step]) -> Bool {
    if statements.evicted.isEmpty || session.status != .idle { return true }
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
      // Parses notices. While no query runs, libpq reports a fatal error as a notice, and the end of file may come
      // later.
      _ = session.hasResult
      return isConnected && !session.isBroken && notices.lastWords == nil
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
    guard var finished = awaited, finished.isFinished else { return nil }
    awaited = nil
    // Only a script runs outside of pipeline mode.
    if PQpipelineStatus(session.handle) == PQ_PIPELINE_OFF, !session.enterPipeline() { isRetired = true }
    if let failure = finished.failure {
      handle(failure)
      finished.failure?.isSafeToRepeat = transaction.failed(failure)
    } else {
      transaction.succeeded()
    }
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

  /// "cached plan must not change result type": a column was added or changed. Other errors have the same SQLSTATE, so
  /// the server's function is compared too.
  fileprivate var isPlanOutdated: Bool { sqlState == "0A000" && report?.routine == "RevalidateCachedQuery" }

  /// Whether the batch would succeed after the statements are prepared again.
  var isCuredByPreparingAgain: Bool { isStatementForgotten || isPlanOutdated }
}

/// Statements that are sent together.
enum Batch {
  /// Statements in a pipeline, with or without a COMMIT after them.
  case queries([Query], commits: Bool = false)
  /// Statements in a pipeline, and further ones after a savepoint of this number.
  case attempt([Query], savepoint: Int, [Query])
  /// A statement without values or rows, which is not prepared: COMMIT, ROLLBACK.
  case command(TransactionStatement)
  /// Statements without values in the simple query protocol.
  case script(String)

  /// The reason why the batch cannot be sent; nil if it can.
  var problem: PostgresError? {
    let queries: [Query]
    switch self {
    case .queries(let given, _): queries = given
    case .attempt(let first, _, let more): queries = first + more
    case .command, .script: return nil
    }
    for query in queries {
      if let problem = query.parameters.problem { return PostgresError(.encoding(problem)) }
      // The protocol counts values in 16 bits.
      if query.parameters.count > UInt16.max {
        return PostgresError(.encoding("a query has more than 65535 values"))
      }
    }
    return nil
  }
}

/// An LRU cache of the prepared statements of one connection.
struct StatementCache {
  /// A prepared statement, or one whose preparation was sent.
  final class Statement {
    let text: StatementText
    let name: String
    let types: [Oid]
    fileprivate var lastUse: UInt64 = 0

    fileprivate init(text: StatementText, name: String, types: [Oid]) {
      self.text = text
      self.name = name
      self.types = types
    }
  }

  let capacity: Int
  private var statements: [StatementText: Statement] = [:]
  /// The names of statements that the server has and the cache evicted.
  private(set) var evicted: [String] = []
  private var uses: UInt64 = 0
  private var lastName = 0

  init(capacity: Int) {
    self.capacity = max(1, capacity)
  }

  /// The statement for a query, if it is prepared for the same parameter types.
  mutating func statement(for query: Query) -> Statement? {
    guard let statement = statements[query.statement], statement.types == query.parameters.types else {
      return nil
    }
    uses += 1
    statement.lastUse = uses
    return statement
  }

  /// Adds a query that is about to be prepared, under a new name, so that it differs from names that are being closed.
  mutating func insert(_ query: Query) -> Statement {
    lastName += 1
    uses += 1
    let statement = Statement(text: query.statement, name: "s\(lastName)", types: query.parameters.types)
    statement.lastUse = uses
    if let replaced = statements.updateValue(statement, forKey: query.statement) {
      evicted.append(replaced.name)
    } else if statements.count > capacity, let oldest = statements.values.min(by: { $0.lastUse < $1.lastUse })
    {
      statements[oldest.text] = nil
      evicted.append(oldest.name)
    }
    return statement
  }

  /// Removes a statement whose preparation failed or did not run.
  mutating func forget(_ statement: Statement) {
    if statements[statement.text] === statement { statements[statement.text] = nil }
  }

  /// Removes all statements. They must be closed unless the server has dropped them too.
  mutating func removeAll(serverForgotToo: Bool) {
    if !serverForgotToo { evicted += statements.values.map(\.name) }
    statements.removeAll()
  }

  /// Removes and returns the names to close.
  mutating func takeEvicted() -> [String] {
    defer { evicted.removeAll() }
    return evicted
  }
}

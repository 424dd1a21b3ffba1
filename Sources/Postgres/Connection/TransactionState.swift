/// The transaction of a leased connection: the statements that wait for the next batch, and whether anything of the
/// lease may be committed. It takes events and does no I/O.
///
/// A transaction goes `none` → `begun` → `open` → `committing` → `committed`; ``end(with:_:)`` leads back to `none`. A
/// COMMIT that fails leads back to `open`; one without a response, or a script, leads to `uncertain`.
struct TransactionState {
  /// The phase of the transaction.
  enum Phase: Equatable {
    /// No transaction.
    case none
    /// BEGIN waits for the next batch.
    case begun
    /// BEGIN was sent. Whether the server still has the transaction open is told by ``SessionStatus``.
    case open
    /// COMMIT was sent and has no response.
    case committing(wasUncertain: Bool)
    /// The transaction may be committed: a COMMIT got no response, or a script may have ended it.
    case uncertain
    /// COMMIT has succeeded.
    case committed
  }

  private(set) var phase = Phase.none
  /// Statements that are sent with the next batch: BEGIN, SAVEPOINT, RELEASE.
  private(set) var pending: [TransactionStatement] = []
  /// Whether a statement of the lease ran outside of a transaction, or in an earlier one that may be committed.
  private var hasRun = false
  private var lastSavepoint = 0

  /// Whether nothing of the lease can be committed, so that its work can be repeated on another connection.
  var isRepeatable: Bool { phase == .none && !hasRun }

  /// `none`, `committed` → `begun`.
  mutating func begin() throws(PostgresError) {
    switch phase {
    case .none: break
    case .committed: hasRun = true
    default: throw PostgresError(.misuse("the connection has a transaction already"))
    }
    phase = .begun
    pending.append(.begin)
  }

  /// A new number for each savepoint, so that a rollback never reaches another one.
  mutating func nextSavepoint() throws(PostgresError) -> Int {
    switch phase {
    case .begun, .open, .uncertain: break
    default: throw PostgresError(.misuse("a savepoint needs an open transaction"))
    }
    lastSavepoint += 1
    return lastSavepoint
  }

  /// SAVEPOINT waits for the next batch.
  mutating func openSavepoint() throws(PostgresError) -> Int {
    let number = try nextSavepoint()
    pending.append(.savepoint(number))
    return number
  }

  /// RELEASE waits for the next batch, which may be COMMIT. A savepoint that was not sent is withdrawn.
  mutating func closeSavepoint(_ number: Int) {
    if phase == .committed || withdraw(.savepoint(number)) { return }
    pending.append(.release(number))
  }

  /// The work under a savepoint has failed.
  ///
  /// - Returns: whether ROLLBACK TO must be sent.
  mutating func abandonSavepoint(_ number: Int, _ session: SessionStatus) -> Bool {
    !withdraw(.savepoint(number)) && session.isInTransaction
  }

  private mutating func withdraw(_ statement: TransactionStatement) -> Bool {
    guard pending.last == statement else { return false }
    pending.removeLast()
    return true
  }

  /// A batch is about to be sent, after the pending statements: `begun` → `open`. With COMMIT: `begun`, `open`,
  /// `uncertain` → `committing`. A script: `open` → `uncertain`.
  ///
  /// - Throws: the reason why the batch must not be sent; the state is as before.
  mutating func send(_ batch: Batch, _ session: SessionStatus) throws(PostgresError) {
    switch batch {
    case .queries(_, commits: true), .command(.commit):
      // The server would respond to COMMIT with a rollback or a warning, and report no error.
      if session == .failed { throw PostgresError(.misuse("a statement of the transaction failed")) }
      switch phase {
      case .begun, .uncertain: break
      case .open where session != .idle: break
      default: throw PostgresError(.misuse("COMMIT needs an open transaction"))
      }
      phase = .committing(wasUncertain: phase == .uncertain)
    case .script:
      if !pending.isEmpty { throw PostgresError(.misuse("a script cannot be sent after pending statements")) }
      if phase == .open { phase = .uncertain }
    case .queries, .attempt, .command:
      if phase == .begun { phase = .open }
    }
  }

  /// The pending statements were sent.
  mutating func sentPending() { pending.removeAll(keepingCapacity: true) }

  /// The response of a batch has arrived: `committing` → `committed`.
  mutating func succeeded() {
    switch phase {
    case .none: hasRun = true
    case .committing: phase = .committed
    case .begun, .open, .uncertain, .committed: break
    }
  }

  /// The server has refused a batch: `committing` → the phase before it.
  ///
  /// - Returns: whether the lease can be repeated, because the batch was the first one and the server refuses all
  ///   writes.
  mutating func failed(_ error: PostgresError) -> Bool {
    switch phase {
    case .none:
      if error.isOfReadOnlyServer, !hasRun { return true }
      hasRun = true
    case .committing(let wasUncertain): phase = wasUncertain ? .uncertain : .open
    case .begun, .open, .uncertain, .committed: break
    }
    return false
  }

  /// The connection was closed before the response of a batch: `committing` → `uncertain`, or `open` if the server has
  /// not read the batch.
  mutating func lost(isUnread: Bool) {
    switch phase {
    case .none: if !isUnread { hasRun = true }
    case .committing(let wasUncertain): phase = isUnread && !wasUncertain ? .open : .uncertain
    case .begun, .open, .uncertain, .committed: break
    }
  }

  /// The error of a batch with COMMIT, as the error of the transaction.
  func outcome(of error: PostgresError, _ session: SessionStatus) -> PostgresError {
    var error = phase == .uncertain ? error.asUnknownOutcome : error
    error.endedTransaction = session == .idle
    return error
  }

  /// The work of the transaction has succeeded: `begun` → `none`.
  ///
  /// - Returns: whether COMMIT must be sent; not if no statement was sent, or the work has committed.
  mutating func complete() -> Bool {
    if phase == .committed { return false }
    guard withdraw(.begin) else { return true }
    phase = .none
    return false
  }

  /// The work of the transaction, or its COMMIT, has failed: `begun` → `none`.
  ///
  /// - Returns: whether ROLLBACK must be sent; not if the connection is closed, which makes the server roll back.
  mutating func abandon(_ session: SessionStatus) -> Bool {
    pending.removeAll(keepingCapacity: true)
    if phase == .begun { phase = .none }
    return phase != .none && session.isInTransaction
  }

  /// The transaction has ended with an error: any phase → `none`.
  ///
  /// - Returns: whether it can be repeated on another connection: it is not committed, and this connection was lost or
  ///   the server refuses writes.
  mutating func end(with error: any Error, _ session: SessionStatus) -> Bool {
    defer { phase = .none }
    switch phase {
    case .none, .begun, .open: break
    case .committing, .uncertain, .committed:
      hasRun = true
      return false
    }
    guard let error = error as? PostgresError else { return false }
    switch error.kind {
    case .unavailable: return session == .closed
    case .server: return error.isOfReadOnlyServer || error.endedSession && session == .closed
    default: return false
    }
  }

  /// The lease has ended: any phase → `none`.
  mutating func endLease() {
    phase = .none
    hasRun = false
  }
}

/// The transaction of a session, as the server's last response told it.
enum SessionStatus {
  /// No transaction is open.
  case idle
  /// A transaction is open.
  case open
  /// A statement of the open transaction has failed: COMMIT would roll back.
  case failed
  /// The connection is closed.
  case closed

  /// Whether the server has a transaction open.
  var isInTransaction: Bool { self == .open || self == .failed }
}

/// A statement that begins, marks or ends a transaction.
enum TransactionStatement: Equatable {
  case begin
  case savepoint(Int)
  case release(Int)
  case rollBackTo(Int)
  case rollBack
  case commit

  /// Its SQL.
  var text: String {
    switch self {
    case .begin: "begin isolation level read committed"
    case .savepoint(let number): "savepoint savepoint_\(number)"
    case .release(let number): "release savepoint savepoint_\(number)"
    case .rollBackTo(let number): "rollback to savepoint savepoint_\(number)"
    case .rollBack: "rollback"
    case .commit: "commit"
    }
  }
}

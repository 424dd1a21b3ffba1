import Testing

@testable import Postgres

/// The state of a transaction without a connection: every event in every phase.
struct TransactionStateTests {
  private typealias Phase = TransactionState.Phase

  private static let phases: [Phase] = [
    .none, .begun, .open, .committing(wasUncertain: false), .committing(wasUncertain: true), .uncertain,
    .committed,
  ]
  private static let commit = Batch.queries([], commits: true)
  private static let lost = PostgresError(.unavailable("lost"))
  private static let readOnly = server("25006")
  private static let ended = server("57P01", severity: "FATAL")
  private static let violation = server("23505")

  private static func server(_ sqlState: String, severity: String = "ERROR") -> PostgresError {
    PostgresError(ServerReport(severity: severity, sqlState: sqlState, message: "refused"))
  }

  /// A lease whose transaction is in this phase.
  private static func state(_ phase: Phase) throws -> TransactionState {
    var state = TransactionState()
    if phase == .none { return state }
    try state.begin()
    if phase == .begun { return state }
    try state.send(.queries([]), .idle)
    state.sentPending()
    state.succeeded()
    if [.uncertain, .committing(wasUncertain: true)].contains(phase) {
      try state.send(.script(""), .open)
      state.succeeded()
    }
    if [.open, .uncertain].contains(phase) { return state }
    try state.send(commit, .open)
    if phase == .committed { state.succeeded() }
    #expect(state.phase == phase)
    return state
  }

  /// The phases after an event in each of ``phases``; nil for a refused event.
  private func after(_ event: (inout TransactionState) throws -> Void) throws -> [Phase?] {
    try Self.phases.map { phase in
      var state = try Self.state(phase)
      do {
        try event(&state)
      } catch let error as PostgresError {
        guard case .misuse = error.kind else { throw error }
        #expect(state.phase == phase)
        return nil
      }
      return state.phase
    }
  }

  @Test func `a transaction begins where none is open`() throws {
    #expect(try after { try $0.begin() } == [.begun, nil, nil, nil, nil, nil, .begun])
    var state = TransactionState()
    try state.begin()
    #expect(state.pending == [.begin])
  }

  @Test func `a batch opens a transaction, and outside of one changes nothing`() throws {
    for batch in [Batch.queries([]), .attempt([], savepoint: 1, []), .command(.rollBack)] {
      var phases: [Phase?] = Self.phases
      phases[1] = .open
      #expect(try after { try $0.send(batch, .open) } == phases)
    }
  }

  @Test func `COMMIT needs an open transaction`() throws {
    let sent: [Phase?] = [
      nil, .committing(wasUncertain: false), .committing(wasUncertain: false), nil, nil,
      .committing(wasUncertain: true), nil,
    ]
    for batch in [Self.commit, .command(.commit)] {
      #expect(try after { try $0.send(batch, .open) } == sent)
      #expect(try after { try $0.send(batch, .failed) } == [nil, nil, nil, nil, nil, nil, nil])
    }
    // The server has ended the transaction: a COMMIT failed before.
    #expect(
      try after { try $0.send(Self.commit, .idle) } == [
        nil, .committing(wasUncertain: false), nil, nil, nil, .committing(wasUncertain: true), nil,
      ])
  }

  @Test func `a script may commit, and is not sent after pending statements`() throws {
    var phases: [Phase?] = Self.phases
    phases[1] = nil
    phases[2] = .uncertain
    #expect(try after { try $0.send(.script("commit"), .open) } == phases)
  }

  @Test func `a response to COMMIT commits, and an error of the server does not`() throws {
    var phases: [Phase?] = Self.phases
    phases.replaceSubrange(3...4, with: [.committed, .committed])
    #expect(try after { $0.succeeded() } == phases)
    phases.replaceSubrange(3...4, with: [.open, .uncertain])
    for error in [Self.violation, Self.readOnly] {
      #expect(try after { _ = $0.failed(error) } == phases)
    }
  }

  @Test func `a COMMIT without a response leaves the outcome uncertain, unless the server has not read it`()
    throws
  {
    var phases: [Phase?] = Self.phases
    phases.replaceSubrange(3...4, with: [.uncertain, .uncertain])
    #expect(try after { $0.lost(isUnread: false) } == phases)
    phases.replaceSubrange(3...4, with: [.open, .uncertain])
    #expect(try after { $0.lost(isUnread: true) } == phases)
  }

  @Test func `an error of an uncertain COMMIT is an unknown outcome`() throws {
    for phase in Self.phases {
      let state = try Self.state(phase)
      for error in [Self.lost, Self.ended, PostgresError(.timedOut)] {
        let isUnknown =
          if case .outcomeUnknown = state.outcome(of: error, .closed).kind { true } else { false }
        #expect(isUnknown == (phase == .uncertain))
      }
      #expect(state.outcome(of: Self.violation, .failed).kind == Self.violation.kind)
      #expect(!state.outcome(of: Self.violation, .failed).endedTransaction)
      #expect(state.outcome(of: Self.violation, .idle).endedTransaction)
    }
  }

  @Test func `a completed transaction sends COMMIT unless it sent nothing or has committed`() throws {
    for phase in Self.phases {
      var state = try Self.state(phase)
      #expect(state.complete() == ![.begun, .committed].contains(phase))
      #expect(state.phase == (phase == .begun ? .none : phase))
      #expect(state.pending.isEmpty)
    }
  }

  @Test func `an abandoned transaction sends ROLLBACK where the server has it open`() throws {
    for phase in Self.phases {
      for session in [SessionStatus.idle, .open, .failed, .closed] {
        var state = try Self.state(phase)
        let isOpen = [.open, .failed].contains(session) && ![.none, .begun].contains(phase)
        #expect(state.abandon(session) == isOpen)
        #expect(state.pending.isEmpty)
      }
    }
  }

  @Test func `a transaction is repeated if it was lost before COMMIT or the server refuses writes`() throws {
    for phase in Self.phases {
      let isRolledBack = [.none, .begun, .open].contains(phase)
      func repeats(_ error: any Error, _ session: SessionStatus) throws -> Bool {
        var state = try Self.state(phase)
        let repeats = state.end(with: error, session)
        #expect(state.phase == .none)
        #expect(state.isRepeatable == isRolledBack)
        return repeats
      }
      #expect(try repeats(Self.lost, .closed) == isRolledBack)
      #expect(try repeats(Self.ended, .closed) == isRolledBack)
      #expect(try repeats(Self.readOnly, .failed) == isRolledBack)
      // Of another connection, or of the statement itself.
      #expect(try !repeats(Self.lost, .idle))
      #expect(try !repeats(Self.ended, .idle))
      #expect(try !repeats(Self.violation, .closed))
      #expect(try !repeats(PostgresError(.timedOut), .closed))
      #expect(try !repeats(CancellationError(), .closed))
    }
  }

  @Test func `work outside of a transaction is repeated until a statement of it may have run`() throws {
    var state = TransactionState()
    #expect(state.isRepeatable)
    state.lost(isUnread: true)
    #expect(state.isRepeatable)
    #expect(state.failed(Self.readOnly) == true)
    #expect(state.isRepeatable)
    for event in [
      { $0.succeeded() }, { $0.lost(isUnread: false) }, { _ = $0.failed(Self.violation) },
    ] as [(inout TransactionState) -> Void] {
      state.endLease()
      #expect(state.isRepeatable)
      event(&state)
      #expect(!state.isRepeatable)
      #expect(state.failed(Self.readOnly) == false)
      state.lost(isUnread: true)
      #expect(!state.isRepeatable)
    }
  }

  @Test func `a transaction after a committed one cannot be repeated with it`() throws {
    var state = try Self.state(.committed)
    try state.begin()
    let isSafe = state.end(with: Self.lost, .closed)
    #expect(isSafe)
    #expect(!state.isRepeatable)
    // The next lease starts anew.
    state.endLease()
    #expect(state.isRepeatable)
  }

  @Test func `a savepoint needs a transaction and has a number of its own`() throws {
    for phase in Self.phases {
      var state = try Self.state(phase)
      guard [.begun, .open, .uncertain].contains(phase) else {
        #expect(throws: PostgresError.self) { try state.openSavepoint() }
        #expect(throws: PostgresError.self) { try state.nextSavepoint() }
        #expect(state.pending.isEmpty)
        continue
      }
      let numbers = [try state.openSavepoint(), try state.nextSavepoint(), try state.openSavepoint()]
      #expect(numbers == [1, 2, 3])
      #expect(state.pending == (phase == .begun ? [.begin] : []) + [.savepoint(1), .savepoint(3)])
    }
  }

  @Test func `a savepoint that was not sent is withdrawn, and one that was sent is released or rolled back`()
    throws
  {
    var state = try Self.state(.open)
    let unsent = [try state.openSavepoint(), try state.openSavepoint()]
    state.closeSavepoint(unsent[1])
    #expect(state.pending == [.savepoint(unsent[0])])
    let isSent = state.abandonSavepoint(unsent[0], .open)
    #expect(!isSent)
    #expect(state.pending.isEmpty)

    let sent = try state.openSavepoint()
    state.sentPending()
    state.closeSavepoint(sent)
    #expect(state.pending == [.release(sent)])
    for session in [SessionStatus.idle, .open, .failed, .closed] {
      let isSent = state.abandonSavepoint(sent, session)
      #expect(isSent == [.open, .failed].contains(session))
    }
  }

  @Test func `COMMIT releases the open savepoints`() throws {
    var state = try Self.state(.open)
    let savepoint = try state.openSavepoint()
    state.sentPending()
    try state.send(Self.commit, .open)
    state.succeeded()
    state.closeSavepoint(savepoint)
    #expect(state.pending.isEmpty)
  }

  @Test(arguments: [
    (TransactionStatement.begin, "begin isolation level read committed"), (.commit, "commit"),
    (.rollBack, "rollback"),
    (.savepoint(2), "savepoint savepoint_2"), (.release(2), "release savepoint savepoint_2"),
    (.rollBackTo(2), "rollback to savepoint savepoint_2"),
  ])
  func `the statements of a transaction are SQL`(statement: TransactionStatement, text: String) {
    #expect(statement.text == text)
  }
}

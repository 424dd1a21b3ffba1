import Dispatch
import Synchronization

/// One connection and what watches its socket.
///
/// A caller sends from its own thread; the answer is read on `thread` when the socket becomes
/// readable. Both happen under one lock, so there is no hop to a queue on the way out. When the
/// connection ends, for whatever reason, the socket is watched no longer and closed, and whoever waits
/// is told.
final class Channel: SocketWatcher {
  /// What came back for a batch.
  struct Answer: Sendable {
    var results: [Rows]
    var failure: PostgresError?
    var notices: [ServerReport]
    /// The batch was sent outside of any transaction.
    var wasIdle: Bool
  }

  private typealias Continuation = CheckedContinuation<Answer, any Error>

  private struct State {
    var wire: ChannelState
    var continuation: Continuation?
    var wasIdle = true
    var deadline = Uptime(nanoseconds: 0)
    /// When the timer fires. A timer that fires too early is set anew then, not before: with a
    /// constant time-out that is once per time-out and not once per query.
    var timerFiresAt: Uptime?
    var timer: any DispatchSourceTimer
    /// Under which the thread watches the socket.
    var watch: UInt64 = 0
    /// Some of a batch waits for room in the socket.
    var awaitsRoom = false
  }

  private let state: Mutex<State>
  private let thread: SocketThread
  private let cancellations: CancellationQueue
  private let onEnd: @Sendable () -> Void
  private let onClose: @Sendable () -> Void

  /// Takes over a session that has logged in.
  ///
  /// - Parameters:
  ///   - thread: where the socket is read.
  ///   - queue: where the clock is.
  ///   - onEnd: called once, when the connection can no longer be used.
  ///   - onClose: called once, after its socket was closed.
  init(
    _ session: sending LibpqSession, configuration: PostgresConfiguration, thread: SocketThread,
    queue: DispatchQueue, cancellations: CancellationQueue, onEnd: @escaping @Sendable () -> Void,
    onClose: @escaping @Sendable () -> Void
  ) {
    self.thread = thread
    self.cancellations = cancellations
    self.onEnd = onEnd
    self.onClose = onClose
    let timer = DispatchSource.makeTimerSource(queue: queue)
    let wire = ChannelState(session: session, configuration: configuration)
    state = Mutex(State(wire: wire, timer: timer))
    let isWatched = state.withLock { state in
      state.timer.setEventHandler { self.timerFired() }
      state.timer.activate()
      if let watch = thread.add(self, state.wire.session.socket) {
        state.watch = watch
        return true
      }
      // Whoever made it looks at `ending`.
      _ = end(&state, PostgresError(.unavailable("the system cannot watch another socket")))
      return false
    }
    if !isWatched { onClose() }
  }

  // MARK: Asking

  /// Sends a batch and waits for everything that comes back.
  ///
  /// - Parameter isCancellable: whether the cancellation of the task ends the connection; if not,
  ///   only the time-out does.
  nonisolated(nonsending) func run(
    _ batch: Batch, timeout: Duration, isCancellable: Bool = true
  ) async throws -> Answer {
    if let problem = batch.problem { throw problem }
    if !isCancellable {
      return try await withCheckedThrowingContinuation { start(batch, timeout, $0) }
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
        start(batch, timeout, continuation)
        // A cancellation between the check and the start found nothing to abandon.
        if Task.isCancelled { abandon(CancellationError()) }
      }
    } onCancel: {
      abandon(CancellationError())
    }
  }

  /// A statement that travels with the next batch.
  func enqueue(_ statement: String) {
    state.withLock { $0.wire.pending.append(statement) }
  }

  /// Takes back a statement that has not travelled yet.
  ///
  /// - Returns: false if it has.
  func withdraw(_ statement: String) -> Bool {
    state.withLock { state in
      guard state.wire.pending.last == statement else { return false }
      state.wire.pending.removeLast()
      return true
    }
  }

  /// Something waits to travel with the next batch.
  var hasPending: Bool { state.withLock { !$0.wire.pending.isEmpty } }

  /// Drops what waits to travel with the next batch.
  func forgetPending() {
    state.withLock { $0.wire.pending.removeAll() }
  }

  /// Why the connection cannot be used any more; nil while it can.
  var ending: PostgresError? { state.withLock { $0.wire.closed } }

  /// A statement failed in the transaction that is open: COMMIT would roll back.
  var isInFailedTransaction: Bool {
    state.withLock { $0.wire.closed == nil && $0.wire.session.isInFailedTransaction }
  }

  /// Is in no transaction.
  var isIdle: Bool { state.withLock { $0.wire.closed == nil && $0.wire.session.isIdle } }

  /// Works, is in no transaction and may serve somebody else.
  var isReusable: Bool {
    state.withLock { state in
      state.wire.closed == nil && !state.wire.isRetired && state.wire.exchange == nil
        && state.wire.pending.isEmpty && state.wire.session.isIdle
    }
  }

  /// The server process that was announced at login; nil once the connection is lost.
  var announcedProcess: Int32? {
    state.withLock { $0.wire.closed == nil ? $0.wire.session.announcedProcess : nil }
  }

  /// Is lost, or will not be lent again.
  var isGone: Bool { state.withLock { $0.wire.closed != nil || $0.wire.isRetired } }

  /// Looks whether the server has hung up on a connection that nobody uses. Its farewell may lie
  /// unread in the socket; one system call here saves the next caller an error.
  func isAlive() -> Bool {
    let (isAlive, outcome): (Bool, Outcome?) = state.withLock { state in
      guard state.wire.closed == nil else { return (false, nil) }
      guard state.wire.exchange == nil, state.wire.session.isReadable, !state.wire.receive() else {
        return (true, nil)
      }
      return (false, lose(&state))
    }
    finish(outcome)
    return isAlive
  }

  /// Lets nobody else have the connection.
  func retire() {
    state.withLock { $0.wire.isRetired = true }
  }

  /// Ends the connection; what is under way fails.
  func close() {
    finish(state.withLock { end(&$0, PostgresError(.unavailable("the connection was closed"))) })
  }

  private func start(_ batch: Batch, _ timeout: Duration, _ continuation: Continuation) {
    let failed: (any Error)?
    let outcome: Outcome?
    (failed, outcome) = state.withLock { state in
      if let closed = state.wire.closed { return (closed.beforeSending, nil) }
      if state.continuation != nil {
        return (PostgresError(.misuse("the connection is in use by another task")), nil)
      }
      state.continuation = continuation
      state.wasIdle = state.wire.session.isIdle && state.wire.pending.isEmpty
      state.deadline = .now + timeout
      if state.timerFiresAt.map({ $0 > state.deadline }) ?? true { setTimer(&state) }
      guard state.wire.send(batch) else { return (nil, lose(&state)) }
      return (nil, flush(&state))
    }
    if let failed { continuation.resume(throwing: failed) }
    finish(outcome)
  }

  // MARK: What the socket and the clock say

  /// What is to be told once the lock is released.
  private struct Outcome {
    var continuation: Continuation?
    var result: Result<Answer, any Error>
    var isEnd: Bool
  }

  private func finish(_ outcome: Outcome?) {
    guard let outcome else { return }
    outcome.continuation?.resume(with: outcome.result)
    if outcome.isEnd {
      onEnd()
      onClose()
    }
  }

  func readable() {
    finish(
      state.withLock { state in
        guard state.wire.closed == nil else { return nil }
        let isUsable = state.wire.receive()
        guard let exchange = state.wire.takeFinished() else { return isUsable ? nil : lose(&state) }
        let answer = Answer(
          results: exchange.results, failure: exchange.failure, notices: state.wire.notices.take(),
          wasIdle: state.wasIdle)
        // A connection that was lost after its answer had come is found out by the next read.
        defer { state.continuation = nil }
        return Outcome(continuation: state.continuation, result: .success(answer), isEnd: false)
      })
  }

  func writable() {
    finish(state.withLock { $0.wire.closed == nil ? flush(&$0) : nil })
  }

  /// Sends what libpq holds back, and watches for more room while something is left.
  private func flush(_ state: inout State) -> Outcome? {
    switch state.wire.session.flush() {
    case nil: return lose(&state)
    case let isHeldBack? where isHeldBack != state.awaitsRoom:
      state.awaitsRoom = isHeldBack
      thread.change(state.watch, state.wire.session.socket, alsoWrites: isHeldBack)
    default: break
    }
    return nil
  }

  private func setTimer(_ state: inout State) {
    state.timerFiresAt = state.deadline
    state.timer.schedule(deadline: state.deadline.dispatchTime)
  }

  private func timerFired() {
    let isLate = state.withLock { state in
      state.timerFiresAt = nil
      guard state.wire.closed == nil, state.continuation != nil else { return false }
      if state.deadline <= .now { return true }
      setTimer(&state)
      return false
    }
    if isLate { abandon(PostgresError(.timedOut, wasSent: true)) }
  }

  // MARK: Ending

  /// Fails what is under way, asks the server to stop it, and ends the connection: what the
  /// server still sends belongs to nobody.
  private func abandon(_ error: any Error) {
    finish(
      state.withLock { state in
        guard state.continuation != nil, state.wire.closed == nil else { return nil }
        CancelRequest(state.wire.session).map(cancellations.send)
        return end(&state, error)
      })
  }

  /// The connection is lost. The server's last words, or ours where we give it up, say more than libpq does; a statement
  /// that failed before says nothing of it.
  private func lose(_ state: inout State) -> Outcome? {
    let failure = state.wire.exchange?.failure.flatMap { $0.report == nil || $0.endedSession ? $0 : nil }
    let reason = PostgresError.Kind.unavailable(state.wire.session.errorMessage)
    // The server answers in order: with its farewell as the first answer, nothing of the batch has been committed.
    let isUnread =
      failure?.report?.interruptsSession ?? false && !(state.wire.exchange?.hasProgress ?? true)
    var error = PostgresError(failure?.kind ?? reason, report: failure?.report, wasSent: !isUnread)
    error.ranNothing = isUnread
    return end(&state, error)
  }

  private func end(_ state: inout State, _ error: any Error) -> Outcome? {
    guard state.wire.closed == nil else { return nil }
    state.wire.closed = error as? PostgresError ?? PostgresError(.unavailable("the connection was given up"))
    state.wire.exchange = nil
    state.timer.cancel()
    thread.remove(state.watch, state.wire.session.socket)
    state.wire.session.finish()
    defer { state.continuation = nil }
    return Outcome(continuation: state.continuation, result: .failure(error), isEnd: true)
  }
}

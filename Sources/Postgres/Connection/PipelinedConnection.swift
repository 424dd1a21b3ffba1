import Dispatch
import Foundation
import Platform
import Synchronization

/// A connection in pipeline mode, whose socket a ``SocketQueue`` watches.
///
/// A caller sends from its own thread; the response is read on that queue when the socket becomes readable. One
/// lock covers both, so sending needs no change of queues.
final class PipelinedConnection: Sendable {
  /// The response to a batch.
  struct Response: Sendable {
    var results: [Rows]
    var failure: PostgresError?
    var notices: [ServerReport]
    /// Whether no transaction was open when the batch was sent.
    var wasIdle: Bool
  }

  private typealias Continuation = CheckedContinuation<Response, any Error>

  private struct State {
    var pipeline: PipelineState
    var continuation: Continuation?
    var wasIdle = true
    var deadline = MonotonicInstant(nanoseconds: 0)
    /// When the timer fires. A timer that fires before the deadline is set again then: with a constant timeout, that is
    /// once per timeout and not once per query.
    var timerFiresAt: MonotonicInstant?
    var timer: any DispatchSourceTimer
    /// The watch of the socket, until the connection ends.
    var watch: SocketQueue.Watch?
    /// Whether bytes of a batch wait for room in the socket.
    var awaitsRoom = false
  }

  private let state: Mutex<State>
  private let queue: SocketQueue
  private let cancellations: CancellationQueue
  private let onEnd: @Sendable () -> Void
  private let onClose: @Sendable () -> Void

  /// Takes over a session that has logged in.
  ///
  /// - Parameters:
  ///   - queue: watches the socket and fires the timer.
  ///   - onEnd: called once, when the connection can no longer be used.
  ///   - onClose: called once, after the socket was closed.
  init(
    _ session: sending LibpqSession, configuration: PostgresConfiguration, queue: SocketQueue,
    cancellations: CancellationQueue, onEnd: @escaping @Sendable () -> Void,
    onClose: @escaping @Sendable () -> Void
  ) {
    self.queue = queue
    self.cancellations = cancellations
    self.onEnd = onEnd
    self.onClose = onClose
    let timer = DispatchSource.makeTimerSource(queue: queue.queue)
    let pipeline = PipelineState(session: session, configuration: configuration)
    state = Mutex(State(pipeline: pipeline, timer: timer))
    state.withLock { state in
      state.timer.setEventHandler { self.timerFired() }
      state.timer.activate()
      let watch = queue.add(state.pipeline.session.socket) { self.ready(for: $0) }
      state.watch = watch
      if queue.wait(for: .reading, watch) == 0 { return }
      // The pool looks at `ending` next.
      _ = end(&state, PostgresError(.unavailable("the system cannot watch another socket")))
    }
  }

  // MARK: Batches

  /// Sends a batch and waits for its whole response.
  ///
  /// - Parameter isCancellable: whether the cancellation of the task ends the connection; if not,
  ///   only the timeout does.
  nonisolated(nonsending) func run(
    _ batch: Batch, timeout: Duration, isCancellable: Bool = true
  ) async throws -> Response {
    if let problem = batch.problem { throw problem }
    if !isCancellable {
      return try await withCheckedThrowingContinuation { start(batch, timeout, $0) }
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
        start(batch, timeout, continuation)
        // A cancellation between the check and the start finds nothing to abandon.
        if Task.isCancelled { abandon(CancellationError()) }
      }
    } onCancel: {
      abandon(CancellationError())
    }
  }

  /// Runs `body` under the lock, for an event of the transaction.
  func withPipeline<R: Sendable, Failure>(
    _ body: (inout PipelineState) throws(Failure) -> R
  ) throws(Failure) -> R {
    try state.withLock { state throws(Failure) in try body(&state.pipeline) }
  }

  /// The error that closed the connection; nil while it is open.
  var closeError: PostgresError? { state.withLock { $0.pipeline.closed } }

  /// Ends a lease.
  ///
  /// - Returns: whether the connection is open, has no transaction and may be leased again.
  func endLease() -> Bool {
    state.withLock { state in
      state.pipeline.transaction.endLease()
      return state.pipeline.sessionStatus == .idle && state.pipeline.transaction.pending.isEmpty
        && !state.pipeline.isRetired && state.pipeline.awaited == nil
    }
  }

  /// The server's process id from the login; nil after the connection was lost.
  var announcedProcess: Int32? {
    state.withLock { $0.pipeline.closed == nil ? $0.pipeline.session.announcedProcess : nil }
  }

  /// Whether the connection is lost or will not be leased again, and nothing of the lease can be committed.
  var isReplaceable: Bool {
    state.withLock { state in
      (state.pipeline.closed != nil || state.pipeline.isRetired) && state.pipeline.transaction.isRepeatable
    }
  }

  /// Whether the server has kept an idle connection open. Its last message may be unread in the socket; one system call
  /// here prevents an error for the next caller.
  func isAlive() -> Bool {
    let (isAlive, outcome): (Bool, Outcome?) = state.withLock { state in
      guard state.pipeline.closed == nil else { return (false, nil) }
      guard state.pipeline.awaited == nil, state.pipeline.session.isReadable, !state.pipeline.receive() else {
        return (true, nil)
      }
      return (false, connectionLost(&state))
    }
    finish(outcome)
    return isAlive
  }

  /// Prevents a further lease of the connection.
  func retire() {
    state.withLock { $0.pipeline.isRetired = true }
  }

  /// Closes the connection; the current batch fails.
  func close() {
    finish(state.withLock { end(&$0, PostgresError(.unavailable("the connection was closed"))) })
  }

  private func start(_ batch: Batch, _ timeout: Duration, _ continuation: Continuation) {
    let failed: (any Error)?
    let outcome: Outcome?
    (failed, outcome) = state.withLock { state in
      if let closed = state.pipeline.closed { return (closed.beforeSending, nil) }
      if state.continuation != nil {
        return (PostgresError(.misuse("the connection is in use by another task")), nil)
      }
      let session = state.pipeline.sessionStatus
      state.wasIdle = session == .idle && state.pipeline.transaction.pending.isEmpty
      do throws(PostgresError) {
        try state.pipeline.transaction.send(batch, session)
      } catch {
        return (error, nil)
      }
      state.continuation = continuation
      state.deadline = MonotonicInstant.now.advanced(by: timeout)
      if state.timerFiresAt.map({ $0 > state.deadline }) ?? true { setTimer(&state) }
      guard state.pipeline.send(batch) else { return (nil, connectionLost(&state)) }
      return (nil, flush(&state))
    }
    if let failed { continuation.resume(throwing: failed) }
    finish(outcome)
  }

  // MARK: Events

  /// The result for the caller and the pool, delivered after the lock is released.
  private struct Outcome {
    var continuation: Continuation?
    var result: Result<Response, any Error>
    var isEnd: Bool
  }

  private func finish(_ outcome: Outcome?) {
    guard let outcome else { return }
    outcome.continuation?.resume(with: outcome.result)
    if outcome.isEnd { onEnd() }
  }

  private func ready(for readiness: Readiness) {
    if readiness.contains(.reading) { readable() }
    if readiness.contains(.writing) { writable() }
  }

  private func readable() {
    finish(
      state.withLock { state in
        guard state.pipeline.closed == nil else { return nil }
        let isUsable = state.pipeline.receive()
        guard let finished = state.pipeline.takeFinished() else {
          return isUsable ? nil : connectionLost(&state)
        }
        let response = Response(
          results: finished.results, failure: finished.failure, notices: state.pipeline.notices.take(),
          wasIdle: state.wasIdle)
        // The next read notices a connection that was lost after its response.
        defer { state.continuation = nil }
        return Outcome(continuation: state.continuation, result: .success(response), isEnd: false)
      })
  }

  private func writable() {
    finish(state.withLock { $0.pipeline.closed == nil ? flush(&$0) : nil })
  }

  /// Sends the bytes that libpq has buffered, and watches the socket while some are left.
  private func flush(_ state: inout State) -> Outcome? {
    switch state.pipeline.session.flush() {
    case nil: return connectionLost(&state)
    case let awaitsRoom? where awaitsRoom != state.awaitsRoom:
      state.awaitsRoom = awaitsRoom
      guard let watch = state.watch, state.pipeline.session.socket >= 0,
        queue.wait(for: awaitsRoom ? [.reading, .writing] : .reading, watch) == 0
      else { return connectionLost(&state) }
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
      guard state.pipeline.closed == nil, state.continuation != nil else { return false }
      if state.deadline <= .now { return true }
      setTimer(&state)
      return false
    }
    if isLate { abandon(PostgresError(.timedOut, wasSent: true)) }
  }

  // MARK: Ending

  /// Fails the current batch, sends a cancel request, and closes the connection, because no caller is left for the
  /// response.
  private func abandon(_ error: any Error) {
    finish(
      state.withLock { state in
        guard state.continuation != nil, state.pipeline.closed == nil else { return nil }
        CancelRequest(state.pipeline.session).map(cancellations.send)
        return end(&state, error)
      })
  }

  /// Closes a lost connection. The server's last message is preferred to libpq's error; the error of an earlier
  /// statement is not the reason.
  private func connectionLost(_ state: inout State) -> Outcome? {
    let failure = state.pipeline.awaited?.failure.flatMap { $0.report == nil || $0.endedSession ? $0 : nil }
    let reason = PostgresError.Kind.unavailable(
      state.pipeline.notices.lastWords?.message ?? state.pipeline.session.errorMessage)
    // The server responds in order: if its last message is the first response, nothing of the batch is committed.
    let isUnread =
      failure?.report?.interruptsSession ?? false && !(state.pipeline.awaited?.hasProgress ?? true)
    var error = PostgresError(failure?.kind ?? reason, report: failure?.report, wasSent: !isUnread)
    error.isSafeToRepeat = isUnread
    return end(&state, error)
  }

  private func end(_ state: inout State, _ error: any Error) -> Outcome? {
    guard state.pipeline.closed == nil else { return nil }
    let reason = error as? PostgresError ?? PostgresError(.unavailable("the connection was closed"))
    state.pipeline.closed = reason
    if state.continuation != nil { state.pipeline.transaction.lost(isUnread: reason.isSafeToRepeat) }
    state.pipeline.awaited = nil
    state.timer.cancel()
    if let watch = state.watch {
      state.watch = nil
      // libpq closes the socket by itself at the end of file.
      queue.remove(watch, isClosed: state.pipeline.session.socket < 0, then: onClose)
    }
    state.pipeline.session.finish()
    defer { state.continuation = nil }
    return Outcome(continuation: state.continuation, result: .failure(error), isEnd: true)
  }
}

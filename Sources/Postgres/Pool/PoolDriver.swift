import Dispatch
import Logging
import Platform
import Synchronization

/// Performs the effects of a ``PoolStateMachine``: opens, leases and closes connections, and sets the timer.
final class PoolDriver: Sendable {
  private struct State {
    var machine: PoolStateMachine
    var connections: [Int: PostgresConnection] = [:]
    var waiters: [UInt64: CheckedContinuation<PostgresConnection, any Error>] = [:]
    var lastWaiter: UInt64 = 0
    var timer: any DispatchSourceTimer
    var isFailing = false
  }

  private let state: Mutex<State>
  private let configuration: PostgresConfiguration
  private let logger: Logger?
  private let cancellations = CancellationQueue()
  /// Reads the sockets, fires the timers and runs tasks.
  let queue: SocketQueue
  /// Counts the open sockets.
  private let sockets = DispatchGroup()

  init(configuration: PostgresConfiguration, logger: Logger?) {
    self.configuration = configuration
    self.logger = logger
    let limits = PoolStateMachine.Limits(
      maximumConnections: max(1, configuration.maximumConnections),
      minimumConnections: min(configuration.minimumConnections, configuration.maximumConnections),
      maximumWaiters: configuration.maximumWaiters, acquireTimeout: configuration.acquireTimeout,
      idleTimeout: configuration.idleTimeout, maximumLifetime: configuration.maximumLifetime)
    queue = SocketQueue(label: "postgres.io")
    let timer = DispatchSource.makeTimerSource(queue: queue.queue)
    state = Mutex(State(machine: PoolStateMachine(limits: limits), timer: timer))
    state.withLock { state in
      state.timer.setEventHandler { [weak self] in self?.apply { $0.tick(.now) } }
      state.timer.activate()
    }
    apply { $0.tick(.now) }
  }

  deinit {
    state.withLock { state in
      state.timer.cancel()
      for connection in state.connections.values { connection.pipelined.close() }
    }
  }

  // MARK: Leases

  /// - Parameter last: connections up to this id are closed and not leased.
  nonisolated(nonsending) func acquire(after last: Int? = nil) async throws -> PostgresConnection {
    while let connection = leaseIdle() {
      if last.map({ connection.id <= $0 }) ?? false {
        connection.pipelined.retire()
      } else if connection.pipelined.isAlive() {
        return connection
      }
      release(connection)
    }
    while true {
      let connection = try await waitForConnection()
      guard let last, connection.id <= last else { return connection }
      connection.pipelined.retire()
      release(connection)
    }
  }

  /// Logs that work is repeated. The server has ended a session or changed its role, so all open connections are
  /// unusable.
  ///
  /// - Returns: the id of the last of these connections.
  func lastConnection(before error: PostgresError) -> Int {
    logger?.notice("repeating database work on a new connection", metadata: ["reason": "\(error)"])
    return state.withLock { $0.machine.lastID }
  }

  private func leaseIdle() -> PostgresConnection? {
    state.withLock { state in state.machine.leaseIdle().flatMap { state.connections[$0] } }
  }

  private nonisolated(nonsending) func waitForConnection() async throws -> PostgresConnection {
    let waiter = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
        apply(registering: (waiter, continuation)) { $0.acquire(waiter, now: .now) }
        // A cancellation between the check and the registration finds no waiter.
        if Task.isCancelled { cancel(waiter) }
      }
    } onCancel: {
      cancel(waiter)
    }
  }

  private func cancel(_ waiter: UInt64) {
    let continuation = state.withLock { state in
      state.machine.cancel(waiter) ? state.waiters.removeValue(forKey: waiter) : nil
    }
    continuation?.resume(throwing: CancellationError())
  }

  func release(_ connection: PostgresConnection) {
    let isReusable = connection.pipelined.endLease()
    apply { $0.release(connection.id, isReusable: isReusable, now: .now) }
  }

  var status: PostgresPoolStatus {
    state.withLock { state in
      PostgresPoolStatus(
        maximum: state.machine.limits.maximumConnections, open: state.machine.openCount,
        idle: state.machine.idleCount, waiting: state.machine.waiterCount)
    }
  }

  // MARK: Effects

  private typealias Waiter = (id: UInt64, continuation: CheckedContinuation<PostgresConnection, any Error>)

  private func apply(
    registering waiter: Waiter? = nil, _ event: (inout PoolStateMachine) -> PoolStateMachine.Effects
  ) {
    typealias Lease = (CheckedContinuation<PostgresConnection, any Error>, PostgresConnection)
    let (effects, leases, refusals, closing) = state.withLock { state in
      if let waiter { state.waiters[waiter.id] = waiter.continuation }
      let effects = event(&state.machine)
      if let wake = effects.wake { state.timer.schedule(deadline: wake.dispatchTime) }
      var leases: [Lease] = []
      for lease in effects.leases {
        guard let continuation = state.waiters.removeValue(forKey: lease.waiter),
          let connection = state.connections[lease.connection]
        else { continue }
        leases.append((continuation, connection))
      }
      let refusals = effects.refusals.compactMap { refusal in
        state.waiters.removeValue(forKey: refusal.waiter).map { ($0, refusal.reason) }
      }
      let closing = effects.closes.compactMap { state.connections.removeValue(forKey: $0) }
      return (effects, leases, refusals, closing)
    }
    for (continuation, connection) in leases { continuation.resume(returning: connection) }
    for (continuation, reason) in refusals { continuation.resume(throwing: PostgresError(reason)) }
    for connection in closing { connection.pipelined.close() }
    for id in effects.connects { connect(id) }
  }

  // MARK: Connecting

  private func connect(_ id: Int) {
    sockets.enter()
    // Connecting blocks, so it has a queue, and with it a thread, of its own.
    DispatchQueue(label: "postgres.connect").async { [self] in
      do throws(PostgresError) {
        connected(id, try LibpqSession.connect(configuration))
      } catch {
        sockets.leave()
        failed(id, error)
      }
    }
  }

  private func connected(_ id: Int, _ session: sending LibpqSession) {
    let pipelined = PipelinedConnection(
      session, configuration: configuration, queue: queue,
      cancellations: cancellations,
      onEnd: { [weak self] in self?.lost(id) },
      onClose: { [sockets] in sockets.leave() })
    let connection = PostgresConnection(
      id: id, pipelined: pipelined, configuration: configuration, logger: logger)
    let hadFailed = state.withLock { state in
      state.connections[id] = connection
      defer { state.isFailing = false }
      return state.isFailing
    }
    if hadFailed { logger?.notice("the database is reachable again") }
    apply { $0.connected(id, now: .now, jitter: .random(in: 0...1)) }
    // It may have been lost before it was added to the pool.
    if pipelined.closeError != nil { lost(id) }
  }

  private func failed(_ id: Int, _ error: PostgresError) {
    let isFirst = state.withLock { state in
      defer { state.isFailing = true }
      return !state.isFailing
    }
    logger?.log(level: isFirst ? .error : .debug, "\(error)")
    let reason = if case .unavailable(let reason) = error.kind { reason } else { "\(error)" }
    apply { $0.connectFailed(id, reason: reason, now: .now, jitter: .random(in: 0...1)) }
  }

  private func lost(_ id: Int) {
    apply { $0.lost(id, now: .now) }
  }

  // MARK: Closing

  /// - Parameter grace: the time until leased connections are closed.
  func close(grace: Duration) async {
    apply { $0.close() }
    await withCheckedContinuation { continuation in
      // Waiting blocks a thread, and a connection attempt cannot be cancelled.
      DispatchQueue(label: "postgres.close").async { [self] in
        if sockets.wait(timeout: MonotonicInstant.now.advanced(by: grace).dispatchTime) == .timedOut {
          let remaining = state.withLock { Array($0.connections.values) }
          for connection in remaining { connection.pipelined.close() }
          _ = sockets.wait(timeout: .now() + 1)
        }
        state.withLock { $0.timer.cancel() }
        continuation.resume()
      }
    }
  }
}

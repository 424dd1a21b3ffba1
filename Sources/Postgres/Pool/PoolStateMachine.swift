import DequeModule
import Platform

/// The decisions of a connection pool: it takes events with their instant and returns ``Effects``. It does no I/O.
///
/// A connection goes `connecting` → `idle` ⇄ `leased` → closed. A caller without an idle connection waits in a FIFO
/// queue. A connection that becomes free goes to the first waiter, so no connection is idle while a caller waits.
///
/// After a failed attempt to connect the pool is `failing`: it makes one attempt at a time, with exponential backoff,
/// with or without waiters. After the acquire timeout without an open connection, new callers are refused at once. One
/// success ends the state.
struct PoolStateMachine {
  typealias ConnectionID = Int
  typealias WaiterID = UInt64

  struct Limits {
    var maximumConnections = 8
    var minimumConnections = 0
    var maximumWaiters = 1024
    var acquireTimeout: Duration = .seconds(3)
    var idleTimeout: Duration = .seconds(600)
    var maximumLifetime: Duration = .seconds(3600)
    /// Between attempts to connect. Full jitter keeps the pools of many servers from connecting at once.
    var backoff = Backoff(base: .milliseconds(100), maximum: .seconds(1), jitter: 1)
  }

  /// The actions for the owner.
  struct Effects: Equatable {
    struct Lease: Equatable {
      var waiter: WaiterID
      var connection: ConnectionID
    }
    struct Refusal: Equatable {
      var waiter: WaiterID
      var reason: PostgresError.Kind
    }
    var leases: [Lease] = []
    var refusals: [Refusal] = []
    var connects: [ConnectionID] = []
    var closes: [ConnectionID] = []
    /// When to call `tick`, if that is earlier than the last requested instant.
    var wake: MonotonicInstant?
  }

  private struct Waiter {
    var id: WaiterID
    var deadline: MonotonicInstant
  }

  private struct Idle {
    var id: ConnectionID
    var since: MonotonicInstant
    var expiry: MonotonicInstant
  }

  private struct Failing {
    var since: MonotonicInstant
    var backoff: Backoff
    var reason: String
    /// Nil during an attempt.
    var nextAttempt: MonotonicInstant?
  }

  let limits: Limits
  private var waiters: Deque<Waiter> = []
  /// The most recently used last. It is leased first, so that the others reach their idle timeout.
  private var idle: [Idle] = []
  /// When each open connection reaches its maximum lifetime.
  private var expiries: [ConnectionID: MonotonicInstant] = [:]
  private var connecting: Set<ConnectionID> = []
  private var failing: Failing?
  private var isClosing = false
  /// The id of the newest connection; ids are ascending.
  private(set) var lastID: ConnectionID = 0
  private var announcedWake: MonotonicInstant?

  init(limits: Limits) {
    self.limits = limits
  }

  /// The number of open connections, leased or idle.
  var openCount: Int { expiries.count }
  /// The number of idle connections.
  var idleCount: Int { idle.count }
  /// The number of waiting callers.
  var waiterCount: Int { waiters.count }
  /// Whether the pool is closed and has no connection left.
  var isDrained: Bool { isClosing && expiries.isEmpty && connecting.isEmpty }

  /// Leases an idle connection, if there is one, without the effects of `acquire`.
  mutating func leaseIdle() -> ConnectionID? {
    isClosing ? nil : idle.popLast()?.id
  }

  /// A caller needs a connection. The effects of this or a later call lease one or refuse the caller.
  mutating func acquire(_ waiter: WaiterID, now: MonotonicInstant) -> Effects {
    var effects = Effects()
    if let reason = refusal(now) {
      effects.refusals.append(.init(waiter: waiter, reason: reason))
    } else if let connection = leaseIdle() {
      effects.leases.append(.init(waiter: waiter, connection: connection))
    } else {
      waiters.append(Waiter(id: waiter, deadline: now.advanced(by: limits.acquireTimeout)))
      connectAsNeeded(now, &effects)
    }
    announceWake(&effects)
    return effects
  }

  private func refusal(_ now: MonotonicInstant) -> PostgresError.Kind? {
    if isClosing { return .closed }
    if let failing, expiries.isEmpty, failing.since.advanced(by: limits.acquireTimeout) <= now {
      return .unavailable(failing.reason)
    }
    return waiters.count >= limits.maximumWaiters ? .poolExhausted : nil
  }

  /// A caller has stopped waiting.
  ///
  /// - Returns: false if it had been leased a connection or refused before.
  mutating func cancel(_ waiter: WaiterID) -> Bool {
    guard let index = waiters.firstIndex(where: { $0.id == waiter }) else { return false }
    waiters.remove(at: index)
    return true
  }

  /// A leased connection was released.
  mutating func release(_ id: ConnectionID, isReusable: Bool, now: MonotonicInstant) -> Effects {
    var effects = Effects()
    if isReusable, !isClosing, let expiry = expiries[id], now < expiry {
      offer(id, expiry, now, &effects)
    } else {
      expiries[id] = nil
      effects.closes.append(id)
      connectAsNeeded(now, &effects)
    }
    announceWake(&effects)
    return effects
  }

  /// A connection was lost. A leased one is removed when it is released.
  mutating func lost(_ id: ConnectionID, now: MonotonicInstant) -> Effects {
    var effects = Effects()
    guard let index = idle.firstIndex(where: { $0.id == id }) else { return effects }
    idle.remove(at: index)
    expiries[id] = nil
    effects.closes.append(id)
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// An attempt to connect succeeded.
  ///
  /// - Parameter jitter: from 0 to 1; shortens the connection's lifetime by up to a tenth.
  mutating func connected(_ id: ConnectionID, now: MonotonicInstant, jitter: Double) -> Effects {
    var effects = Effects()
    connecting.remove(id)
    failing = nil
    if isClosing {
      effects.closes.append(id)
      return effects
    }
    let expiry = now.advanced(by: limits.maximumLifetime * (1 - jitter / 10))
    expiries[id] = expiry
    offer(id, expiry, now, &effects)
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// An attempt to connect failed.
  ///
  /// - Parameter jitter: from 0 to 1, for the backoff.
  mutating func connectFailed(_ id: ConnectionID, reason: String, now: MonotonicInstant, jitter: Double)
    -> Effects
  {
    var effects = Effects()
    connecting.remove(id)
    if isClosing { return effects }
    var failing = failing ?? Failing(since: now, backoff: limits.backoff, reason: reason)
    failing.reason = reason
    // Simultaneous attempts count as one failure.
    if failing.nextAttempt == nil {
      failing.nextAttempt = now.advanced(by: failing.backoff.failed(random: jitter))
    }
    self.failing = failing
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// The instant of ``Effects/wake`` has come.
  mutating func tick(_ now: MonotonicInstant) -> Effects {
    var effects = Effects()
    announcedWake = nil
    while let waiter = waiters.first, waiter.deadline <= now {
      waiters.removeFirst()
      let reason = failing.map { PostgresError.Kind.unavailable($0.reason) } ?? .poolExhausted
      effects.refusals.append(.init(waiter: waiter.id, reason: reason))
    }
    retireIdle(now, &effects)
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// Refuses new callers; leased connections may finish their work.
  mutating func close() -> Effects {
    var effects = Effects()
    isClosing = true
    effects.refusals = waiters.map { .init(waiter: $0.id, reason: .closed) }
    waiters.removeAll()
    effects.closes = idle.map(\.id)
    for id in effects.closes { expiries[id] = nil }
    idle.removeAll()
    return effects
  }

  /// Leases a usable connection to the first waiter, or makes it idle.
  private mutating func offer(
    _ id: ConnectionID, _ expiry: MonotonicInstant, _ now: MonotonicInstant, _ effects: inout Effects
  ) {
    if let waiter = waiters.popFirst() {
      effects.leases.append(.init(waiter: waiter.id, connection: id))
    } else {
      idle.append(Idle(id: id, since: now, expiry: expiry))
    }
  }

  private mutating func retireIdle(_ now: MonotonicInstant, _ effects: inout Effects) {
    var surplus = expiries.count - limits.minimumConnections
    idle.removeAll { connection in
      let isUnused = surplus > 0 && connection.since.advanced(by: limits.idleTimeout) <= now
      guard connection.expiry <= now || isUnused else { return false }
      surplus -= 1
      expiries[connection.id] = nil
      effects.closes.append(connection.id)
      return true
    }
  }

  private mutating func connectAsNeeded(_ now: MonotonicInstant, _ effects: inout Effects) {
    if isClosing { return }
    if let failing {
      guard let nextAttempt = failing.nextAttempt, nextAttempt <= now, connecting.isEmpty,
        expiries.count < limits.maximumConnections
      else { return }
      self.failing?.nextAttempt = nil
      connect(&effects)
      return
    }
    let missing = max(waiters.count, limits.minimumConnections - expiries.count)
    while connecting.count < missing, expiries.count + connecting.count < limits.maximumConnections {
      connect(&effects)
    }
  }

  private mutating func connect(_ effects: inout Effects) {
    lastID += 1
    connecting.insert(lastID)
    effects.connects.append(lastID)
  }

  /// Requests a `tick`, if it is earlier than the last requested one. With a constant timeout that is once per timeout
  /// and not once per call.
  private mutating func announceWake(_ effects: inout Effects) {
    var next = waiters.first?.deadline
    func consider(_ instant: MonotonicInstant?) {
      guard let instant else { return }
      next = next.map { min($0, instant) } ?? instant
    }
    if connecting.isEmpty { consider(failing?.nextAttempt) }
    if expiries.count > limits.minimumConnections {
      consider(idle.first.map { $0.since.advanced(by: limits.idleTimeout) })
    }
    for connection in idle { consider(connection.expiry) }
    guard let next, announcedWake.map({ next < $0 }) ?? true else { return }
    announcedWake = next
    effects.wake = next
  }
}

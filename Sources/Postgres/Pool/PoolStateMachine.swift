import DequeModule

/// What a pool decides, without doing it: who gets which connection, when to connect, when to give
/// up. It is told what happened and when, and answers with ``Effects``.
///
/// A connection goes `connecting` → `idle` ⇄ `leased` → gone. Whoever finds no idle connection
/// waits in line; a connection that comes free goes to the head of the line, so while somebody
/// waits nothing is idle.
///
/// A failed attempt to connect makes the pool `failing`: one attempt at a time, with growing pauses
/// in between, whether somebody waits or not. When that has lasted as long as anybody would wait,
/// and nothing is open, newcomers are refused at once. One success ends it.
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
    var backoff = Backoff()
  }

  /// What the owner must do next.
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
    /// When to call `tick`, if that is sooner than what was asked for before.
    var wake: Uptime?
  }

  private struct Waiter {
    var id: WaiterID
    var deadline: Uptime
  }

  private struct Idle {
    var id: ConnectionID
    var since: Uptime
    var expiry: Uptime
  }

  private struct Failing {
    var since: Uptime
    var attempts: Int
    var reason: String
    /// Nil while an attempt is under way.
    var nextAttempt: Uptime?
  }

  let limits: Limits
  private var waiters: Deque<Waiter> = []
  /// The most recently used last; it is used first, so that what is not needed grows old.
  private var idle: [Idle] = []
  /// When each open connection has lived long enough.
  private var expiries: [ConnectionID: Uptime] = [:]
  private var connecting: Set<ConnectionID> = []
  private var failing: Failing?
  private var isClosing = false
  /// The connection that was begun last; those begun before it have lower numbers.
  private(set) var lastID: ConnectionID = 0
  private var announcedWake: Uptime?

  init(limits: Limits) {
    self.limits = limits
  }

  /// How many connections are open, lent or idle.
  var openCount: Int { expiries.count }
  /// How many are open and not lent.
  var idleCount: Int { idle.count }
  /// How many wait for one.
  var waiterCount: Int { waiters.count }
  /// Closed, and nothing is left.
  var isDrained: Bool { isClosing && expiries.isEmpty && connecting.isEmpty }

  /// An idle connection, if there is one. The quick way of `acquire`.
  mutating func leaseIdle() -> ConnectionID? {
    isClosing ? nil : idle.popLast()?.id
  }

  /// Somebody needs a connection and will be told of it by the effects of this or a later call.
  mutating func acquire(_ waiter: WaiterID, now: Uptime) -> Effects {
    var effects = Effects()
    if let reason = refusal(now) {
      effects.refusals.append(.init(waiter: waiter, reason: reason))
    } else if let connection = leaseIdle() {
      effects.leases.append(.init(waiter: waiter, connection: connection))
    } else {
      waiters.append(Waiter(id: waiter, deadline: now + limits.acquireTimeout))
      connectAsNeeded(now, &effects)
    }
    announceWake(&effects)
    return effects
  }

  private func refusal(_ now: Uptime) -> PostgresError.Kind? {
    if isClosing { return .closed }
    if let failing, expiries.isEmpty, failing.since + limits.acquireTimeout <= now {
      return .unavailable(failing.reason)
    }
    return waiters.count >= limits.maximumWaiters ? .poolExhausted : nil
  }

  /// Somebody stopped waiting.
  ///
  /// - Returns: false if it had been answered before.
  mutating func cancel(_ waiter: WaiterID) -> Bool {
    guard let index = waiters.firstIndex(where: { $0.id == waiter }) else { return false }
    waiters.remove(at: index)
    return true
  }

  /// A lent connection came back.
  mutating func release(_ id: ConnectionID, isReusable: Bool, now: Uptime) -> Effects {
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

  /// The server closed a connection. A lent one is only forgotten when it comes back.
  mutating func lost(_ id: ConnectionID, now: Uptime) -> Effects {
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
  /// - Parameter jitter: from 0 to 1; shortens the connection's life by up to a tenth.
  mutating func connected(_ id: ConnectionID, now: Uptime, jitter: Double) -> Effects {
    var effects = Effects()
    connecting.remove(id)
    failing = nil
    if isClosing {
      effects.closes.append(id)
      return effects
    }
    let expiry = now + limits.maximumLifetime * (1 - jitter / 10)
    expiries[id] = expiry
    offer(id, expiry, now, &effects)
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// An attempt to connect failed.
  ///
  /// - Parameter jitter: from 0 to 1, for the pause.
  mutating func connectFailed(_ id: ConnectionID, reason: String, now: Uptime, jitter: Double) -> Effects {
    var effects = Effects()
    connecting.remove(id)
    if isClosing { return effects }
    var failing = failing ?? Failing(since: now, attempts: 0, reason: reason)
    failing.reason = reason
    // Attempts that started together count as one.
    if failing.nextAttempt == nil {
      failing.attempts += 1
      failing.nextAttempt = now + limits.backoff.pause(attempts: failing.attempts, jitter: jitter)
    }
    self.failing = failing
    connectAsNeeded(now, &effects)
    announceWake(&effects)
    return effects
  }

  /// Time has passed.
  mutating func tick(_ now: Uptime) -> Effects {
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

  /// No new work; what is lent may finish.
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

  /// Gives a usable connection to the head of the line, or puts it away.
  private mutating func offer(
    _ id: ConnectionID, _ expiry: Uptime, _ now: Uptime, _ effects: inout Effects
  ) {
    if let waiter = waiters.popFirst() {
      effects.leases.append(.init(waiter: waiter.id, connection: id))
    } else {
      idle.append(Idle(id: id, since: now, expiry: expiry))
    }
  }

  private mutating func retireIdle(_ now: Uptime, _ effects: inout Effects) {
    var surplus = expiries.count - limits.minimumConnections
    idle.removeAll { connection in
      let isUnused = surplus > 0 && connection.since + limits.idleTimeout <= now
      guard connection.expiry <= now || isUnused else { return false }
      surplus -= 1
      expiries[connection.id] = nil
      effects.closes.append(connection.id)
      return true
    }
  }

  private mutating func connectAsNeeded(_ now: Uptime, _ effects: inout Effects) {
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

  /// The owner has one timer. It is set anew only for something sooner: with a constant time-out
  /// that is once per time-out, not once per call.
  private mutating func announceWake(_ effects: inout Effects) {
    var next = waiters.first?.deadline
    func consider(_ instant: Uptime?) {
      guard let instant else { return }
      next = next.map { min($0, instant) } ?? instant
    }
    if connecting.isEmpty { consider(failing?.nextAttempt) }
    if expiries.count > limits.minimumConnections {
      consider(idle.first.map { $0.since + limits.idleTimeout })
    }
    for connection in idle { consider(connection.expiry) }
    guard let next, announcedWake.map({ next < $0 }) ?? true else { return }
    announcedWake = next
    effects.wake = next
  }
}

import Platform
import Testing

@testable import Postgres

/// The pool's decisions, with a clock that the test controls.
struct PoolStateMachineTests {
  /// A state machine and its clock.
  private struct Bench {
    var machine: PoolStateMachine
    var now = MonotonicInstant(nanoseconds: 0)

    init(_ configure: (inout PoolStateMachine.Limits) -> Void = { _ in }) {
      var limits = PoolStateMachine.Limits()
      limits.maximumConnections = 2
      configure(&limits)
      machine = PoolStateMachine(limits: limits)
    }

    mutating func acquire(_ waiter: UInt64) -> PoolStateMachine.Effects {
      machine.acquire(waiter, now: now)
    }

    mutating func connected(_ id: Int) -> PoolStateMachine.Effects {
      machine.connected(id, now: now, jitter: 0)
    }

    mutating func failed(_ id: Int, jitter: Double = 1) -> PoolStateMachine.Effects {
      machine.connectFailed(id, reason: "refused", now: now, jitter: jitter)
    }

    mutating func release(_ id: Int, isReusable: Bool = true) -> PoolStateMachine.Effects {
      machine.release(id, isReusable: isReusable, now: now)
    }

    mutating func pass(_ duration: Duration) -> PoolStateMachine.Effects {
      now = now.advanced(by: duration)
      return machine.tick(now)
    }
  }

  @Test func `the first waiter makes the pool connect and gets the connection`() {
    var bench = Bench()
    #expect(bench.acquire(1).connects == [1])
    #expect(bench.connected(1).leases == [.init(waiter: 1, connection: 1)])
  }

  @Test func `an idle connection is leased at once, and the most recently used is leased first`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    _ = bench.connected(1)
    _ = bench.connected(2)
    _ = bench.release(2)
    _ = bench.release(1)
    #expect(bench.machine.leaseIdle() == 1)
    #expect(bench.machine.leaseIdle() == 2)
    #expect(bench.machine.leaseIdle() == nil)
  }

  @Test func `the pool opens no more connections than its maximum`() {
    var bench = Bench()
    #expect(bench.acquire(1).connects == [1])
    #expect(bench.acquire(2).connects == [2])
    #expect(bench.acquire(3).connects.isEmpty)
    _ = bench.connected(1)
    _ = bench.connected(2)
    #expect(bench.machine.openCount == 2)
    #expect(bench.machine.waiterCount == 1)
  }

  @Test func `waiters of a pool get connections in FIFO order`() {
    var bench = Bench { $0.maximumConnections = 1 }
    for waiter in 1...20 { _ = bench.acquire(UInt64(waiter)) }
    var order = bench.connected(1).leases.map(\.waiter)
    for _ in 2...20 { order += bench.release(1).leases.map(\.waiter) }
    #expect(order == Array(1...20))
    #expect(bench.machine.idleCount == 0)
    #expect(bench.release(1).leases.isEmpty)
    #expect(bench.machine.idleCount == 1)
  }

  @Test func `a waiter of a pool is refused at its deadline`() {
    var bench = Bench { $0.maximumConnections = 1 }
    #expect(bench.acquire(1).wake == MonotonicInstant(nanoseconds: 3_000_000_000))
    _ = bench.connected(1)
    _ = bench.acquire(2)
    _ = bench.pass(.seconds(1))
    _ = bench.acquire(3)
    #expect(bench.pass(.milliseconds(1999)).refusals.isEmpty)
    #expect(bench.pass(.milliseconds(1)).refusals == [.init(waiter: 2, reason: .poolExhausted)])
    #expect(bench.pass(.seconds(1)).refusals == [.init(waiter: 3, reason: .poolExhausted)])
  }

  @Test func `a caller beyond the pool's limit of waiters is refused at once`() {
    var bench = Bench {
      $0.maximumConnections = 1
      $0.maximumWaiters = 2
    }
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    #expect(bench.acquire(3).refusals == [.init(waiter: 3, reason: .poolExhausted)])
    _ = bench.machine.cancel(1)
    #expect(bench.acquire(4).refusals.isEmpty)
  }

  @Test func `a cancelled waiter of a pool is skipped`() {
    var bench = Bench { $0.maximumConnections = 1 }
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    let wasWaiting = bench.machine.cancel(1)
    let isStillWaiting = bench.machine.cancel(1)
    #expect(wasWaiting && !isStillWaiting)
    #expect(bench.connected(1).leases == [.init(waiter: 2, connection: 1)])
  }

  @Test func `a broken connection is replaced for waiters`() {
    var bench = Bench { $0.maximumConnections = 1 }
    _ = bench.acquire(1)
    _ = bench.connected(1)
    _ = bench.acquire(2)
    let effects = bench.release(1, isReusable: false)
    #expect(effects.closes == [1])
    #expect(effects.connects == [2])
    #expect(bench.connected(2).leases == [.init(waiter: 2, connection: 2)])
  }

  @Test func `a lost idle connection is not leased again`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.connected(1)
    _ = bench.release(1)
    #expect(bench.machine.lost(1, now: bench.now).closes == [1])
    #expect(bench.machine.leaseIdle() == nil)
    #expect(bench.machine.lost(1, now: bench.now) == .init())
  }

  @Test func `a lost leased connection is removed when it is released`() {
    var bench = Bench { $0.maximumConnections = 1 }
    _ = bench.acquire(1)
    _ = bench.connected(1)
    #expect(bench.machine.lost(1, now: bench.now) == .init())
    #expect(bench.acquire(2).connects.isEmpty)
    #expect(bench.release(1, isReusable: false).connects == [2])
  }

  @Test func `a failing server gets one attempt at a time, with exponential backoff`() {
    var bench = Bench { $0.maximumConnections = 8 }
    for waiter in 1...8 { _ = bench.acquire(UInt64(waiter)) }
    // Eight attempts had started together; their failures count once.
    var next: MonotonicInstant?
    for id in 1...8 { next = bench.failed(id).wake ?? next }
    var pauses: [UInt64] = []
    for id in 9...13 {
      let instant = next ?? bench.now
      pauses.append((instant.nanoseconds - bench.now.nanoseconds) / 1_000_000)
      bench.now = instant
      let effects = bench.machine.tick(bench.now)
      #expect(effects.connects == [id])
      #expect(bench.machine.tick(bench.now).connects.isEmpty)
      next = bench.failed(id).wake
    }
    #expect(pauses == [100, 200, 400, 800, 1000])
  }

  @Test func `jitter spreads the connection attempts over the whole backoff delay`() {
    let backoff = PoolStateMachine.Limits().backoff
    #expect(backoff.delay(afterFailures: 1, random: 0) == .zero)
    #expect(backoff.delay(afterFailures: 3, random: 0.5) == .milliseconds(200))
    #expect(backoff.delay(afterFailures: .max, random: 1) == .seconds(1))
  }

  @Test func `during an outage a waiter gets the reason at its deadline, and a later caller at once`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.failed(1)
    let early = bench.pass(.seconds(3))
    #expect(early.refusals == [.init(waiter: 1, reason: .unavailable("refused"))])
    #expect(bench.acquire(2).refusals == [.init(waiter: 2, reason: .unavailable("refused"))])
  }

  @Test func `all waiters get connections when the server is available again`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.failed(1)
    #expect(bench.pass(.milliseconds(100)).connects == [2])
    _ = bench.acquire(2)
    let effects = bench.connected(2)
    #expect(effects.leases == [.init(waiter: 1, connection: 2)])
    #expect(effects.connects == [3])
  }

  @Test func `the pool retries an unreachable server even without waiters`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.failed(1)
    _ = bench.machine.cancel(1)
    #expect(bench.pass(.seconds(10)).connects == [2])
  }

  @Test func `idle connections beyond the minimum are closed after the idle timeout`() {
    var bench = Bench { $0.minimumConnections = 1 }
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    _ = bench.connected(1)
    _ = bench.connected(2)
    _ = bench.release(1)
    _ = bench.release(2)
    #expect(bench.pass(.seconds(599)).closes.isEmpty)
    #expect(bench.pass(.seconds(1)).closes == [1])
    #expect(bench.pass(.seconds(1)).closes.isEmpty)
  }

  @Test func `the pool opens its minimum of connections without waiters and replaces lost ones`() {
    var bench = Bench { $0.minimumConnections = 2 }
    #expect(bench.machine.tick(bench.now).connects == [1, 2])
    _ = bench.connected(1)
    _ = bench.connected(2)
    #expect(bench.machine.lost(1, now: bench.now).connects == [3])
  }

  @Test func `a connection is closed at its maximum lifetime, or when it is released after that`() {
    var bench = Bench { $0.idleTimeout = .seconds(1_000_000) }
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    _ = bench.connected(1)
    _ = bench.connected(2)
    _ = bench.release(1)
    #expect(bench.pass(.seconds(3600)).closes == [1])
    #expect(bench.release(2).closes == [2])
  }

  @Test func `a closed pool leases nothing and is drained when all connections are released`() {
    var bench = Bench()
    _ = bench.acquire(1)
    _ = bench.acquire(2)
    _ = bench.acquire(3)
    _ = bench.connected(1)
    let effects = bench.machine.close()
    #expect(effects.refusals.map(\.waiter) == [2, 3])
    #expect(bench.acquire(4).refusals == [.init(waiter: 4, reason: .closed)])
    #expect(bench.release(1).closes == [1])
    #expect(!bench.machine.isDrained)
    #expect(bench.connected(2).closes == [2])
    #expect(bench.machine.isDrained)
  }

  /// The invariants of the pool hold after any sequence of events.
  @Test(arguments: 0..<200)
  func `after random events the pool has lost no waiter and leased no connection twice`(seed: UInt64) {
    var generator = SplitMix64(state: seed)
    var bench = Bench {
      $0.maximumConnections = 3
      $0.minimumConnections = Int(seed % 3)
      $0.maximumWaiters = 5
    }
    var model = PoolModel()
    model.apply(bench.machine.tick(bench.now))
    for waiter in 1...400 as ClosedRange<UInt64> {
      switch Int.random(in: 0..<7, using: &generator) {
      case 0, 1:
        model.waiting.insert(waiter)
        model.apply(bench.acquire(waiter))
      case 2:
        if let id = model.lent.randomElement(using: &generator) {
          model.lent.remove(id)
          model.apply(bench.release(id, isReusable: Bool.random(using: &generator)))
        }
      case 3:
        if let id = model.connecting.randomElement(using: &generator) {
          model.connecting.remove(id)
          let isUp = Int.random(in: 0..<3, using: &generator) > 0
          if isUp { model.open.insert(id) }
          model.apply(isUp ? bench.connected(id) : bench.failed(id, jitter: 0.5))
        }
      case 4: model.apply(bench.pass(.milliseconds(Int.random(in: 0...1500, using: &generator))))
      case 5:
        if let gone = model.waiting.randomElement(using: &generator) {
          let wasWaiting = bench.machine.cancel(gone)
          #expect(wasWaiting)
          model.waiting.remove(gone)
        }
      default:
        if let id = model.open.subtracting(model.lent).randomElement(using: &generator) {
          model.apply(bench.machine.lost(id, now: bench.now))
        }
      }
      #expect(model.open.count + model.connecting.count <= 3)
      #expect(bench.machine.waiterCount == model.waiting.count)
      #expect(bench.machine.idleCount == model.open.count - model.lent.count)
      #expect(model.waiting.isEmpty || bench.machine.idleCount == 0)
    }
    // At the end every waiter gets a connection or an error.
    model.apply(bench.pass(.seconds(3)))
    #expect(model.waiting.isEmpty)
  }
}

/// The state of the pool as its owner knows it from the effects.
private struct PoolModel {
  var waiting: Set<UInt64> = []
  var connecting: Set<Int> = []
  var open: Set<Int> = []
  var lent: Set<Int> = []

  mutating func apply(_ effects: PoolStateMachine.Effects) {
    for lease in effects.leases {
      let wasWaiting = waiting.remove(lease.waiter) != nil
      let wasFree = lent.insert(lease.connection).inserted
      #expect(wasWaiting, "leased to a caller that did not wait")
      #expect(open.contains(lease.connection), "lent a connection that is not open")
      #expect(wasFree, "lent twice")
    }
    for refusal in effects.refusals {
      let wasWaiting = waiting.remove(refusal.waiter) != nil
      #expect(wasWaiting)
    }
    for id in effects.connects {
      let isNew = connecting.insert(id).inserted
      #expect(isNew)
    }
    for id in effects.closes {
      #expect(!lent.contains(id), "closed while lent")
      open.remove(id)
    }
  }
}

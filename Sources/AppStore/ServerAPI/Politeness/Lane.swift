import Synchronization

/// The way to one endpoint: carries out what its ``RateLimit`` decides, with one timer for all who wait.
final class Lane: Sendable {
  typealias Instant = ContinuousClock.Instant
  private typealias Continuation = CheckedContinuation<AppStoreServerError?, Never>

  private struct State {
    var limit: RateLimit
    var waiting: [UInt64: Continuation] = [:]
    var lastID: UInt64 = 0
    var alarm: (at: Instant, task: Task<Void, Never>)?
  }

  private let state: Mutex<State>
  private let clock: StoreClock

  init(_ limit: RateLimit, clock: StoreClock) {
    state = Mutex(State(limit: limit))
    self.clock = clock
  }

  deinit { state.withLock { $0.alarm?.task.cancel() } }

  /// Waits until a request may be sent, which ends in ``answered()`` or ``returned()``.
  ///
  /// - Parameter latest: until when it is of use to go.
  /// - Returns: why it may not go; nil if it may.
  func enter(by latest: Instant) async -> AppStoreServerError? {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        apply { state, now in
          switch state.limit.ask(id, at: now, latest: latest) {
          case .go: return [(continuation, nil)]
          case .refused(let wait): return [(continuation, .overloaded(retryAfter: wait))]
          case .wait:
            state.waiting[id] = continuation
            return []
          }
        }
        // A cancellation from before found nobody in the line.
        if Task.isCancelled { cancel(id) }
      }
    } onCancel: {
      cancel(id)
    }
  }

  /// The request was answered, or will not be any more.
  func answered() {
    apply { state, now in
      state.limit.answered(at: now)
      return []
    }
  }

  /// The request was not sent.
  func returned() {
    apply { state, _ in
      state.limit.returned()
      return []
    }
  }

  /// Lets nobody through for a while.
  func pause(for length: Duration) {
    apply { state, now in
      state.limit.pause(until: now + length)
      return []
    }
  }

  /// How many stand in line.
  var waitingCount: Int { state.withLock { $0.limit.waitingCount } }

  private func cancel(_ id: UInt64) {
    apply { state, _ in
      guard state.limit.leave(id), let continuation = state.waiting.removeValue(forKey: id) else { return [] }
      return [(continuation, .transport(CancellationError()))]
    }
  }

  /// Lets something happen, and then the line go on.
  private func apply(_ event: (inout State, Instant) -> [(Continuation, AppStoreServerError?)]) {
    let resumed = state.withLock { state in
      let now = clock.instant()
      var resumed = event(&state, now)
      let effects = state.limit.tick(at: now)
      for id in effects.admitted {
        if let continuation = state.waiting.removeValue(forKey: id) { resumed.append((continuation, nil)) }
      }
      for id in effects.refused {
        guard let continuation = state.waiting.removeValue(forKey: id) else { continue }
        resumed.append((continuation, .overloaded(retryAfter: effects.retryAfter)))
      }
      setAlarm(in: &state)
      return resumed
    }
    for (continuation, refusal) in resumed { continuation.resume(returning: refusal) }
  }

  private func setAlarm(in state: inout State) {
    let next = state.limit.nextTick
    guard next != state.alarm?.at else { return }
    state.alarm?.task.cancel()
    state.alarm = next.map { instant in
      let task = Task { [weak self, clock] in
        do { try await clock.sleep(instant) } catch { return }
        self?.ring(instant)
      }
      return (instant, task)
    }
  }

  private func ring(_ instant: Instant) {
    apply { state, _ in
      if state.alarm?.at == instant { state.alarm = nil }
      return []
    }
  }
}

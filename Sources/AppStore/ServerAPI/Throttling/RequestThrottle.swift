import Synchronization

/// Delays the requests to one endpoint as its ``RateLimit`` decides, with one timer for all waiting requests.
final class RequestThrottle: Sendable {
  typealias Instant = ContinuousClock.Instant
  private typealias Continuation = CheckedContinuation<AppStoreServerError?, Never>

  private struct State {
    var limit: RateLimit
    var waiting: [UInt64: Continuation] = [:]
    var lastID: UInt64 = 0
    var timer: (at: Instant, task: Task<Void, Never>)?
  }

  private let state: Mutex<State>
  private let clock: StoreClock

  init(_ limit: RateLimit, clock: StoreClock) {
    state = Mutex(State(limit: limit))
    self.clock = clock
  }

  deinit { state.withLock { $0.timer?.task.cancel() } }

  /// Waits for a permit, which the caller gives back with ``answered()`` or ``returned()``.
  ///
  /// - Parameter latest: the latest instant at which a permit is of use.
  /// - Returns: the reason why the request may not be sent; nil if it may.
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
        // A cancellation before this line had no waiting request to remove.
        if Task.isCancelled { cancel(id) }
      }
    } onCancel: {
      cancel(id)
    }
  }

  /// Gives a permit back after the response arrived, or when it is certain that none will arrive.
  func answered() {
    apply { state, now in
      state.limit.answered(at: now)
      return []
    }
  }

  /// Gives a permit back that no request used.
  func returned() {
    apply { state, _ in
      state.limit.returned()
      return []
    }
  }

  /// Stops all requests for a time.
  func pause(for length: Duration) {
    apply { state, now in
      state.limit.pause(until: now + length)
      return []
    }
  }

  private func cancel(_ id: UInt64) {
    apply { state, _ in
      guard state.limit.leave(id), let continuation = state.waiting.removeValue(forKey: id) else { return [] }
      return [(continuation, .transport(CancellationError()))]
    }
  }

  /// Applies an event to the limit and resumes the requests that it admits or refuses.
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
      setTimer(in: &state)
      return resumed
    }
    for (continuation, refusal) in resumed { continuation.resume(returning: refusal) }
  }

  private func setTimer(in state: inout State) {
    let next = state.limit.nextTick
    guard next != state.timer?.at else { return }
    state.timer?.task.cancel()
    state.timer = next.map { instant in
      let task = Task { [weak self, clock] in
        do { try await clock.sleep(instant) } catch { return }
        self?.fire(instant)
      }
      return (instant, task)
    }
  }

  private func fire(_ instant: Instant) {
    apply { state, _ in
      if state.timer?.at == instant { state.timer = nil }
      return []
    }
  }
}

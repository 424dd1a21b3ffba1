import Foundation
import Synchronization

@testable import AppStore

/// A clock that a test advances. With `jumps` it advances itself to the end of each sleep, for tests without
/// concurrency.
final class HandDrivenClock: Sendable {
  private struct State {
    var elapsed = Duration.zero
    var sleepers:
      [UUID: (until: ContinuousClock.Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
  }

  let start = ContinuousClock.now
  let epoch = Date(timeIntervalSince1970: 1_750_000_000)
  private let state = Mutex(State())
  private let jumps: Bool
  private let jitter: Double

  init(jumps: Bool = false, jitter: Double = 1) {
    self.jumps = jumps
    self.jitter = jitter
  }

  var elapsed: Duration { state.withLock { $0.elapsed } }
  var instant: ContinuousClock.Instant { start + elapsed }
  var date: Date { epoch + elapsed / .seconds(1) }
  var sleeperCount: Int { state.withLock { $0.sleepers.count } }

  var storeClock: StoreClock {
    StoreClock(
      date: { self.date }, cacheDate: { self.date }, instant: { self.instant },
      sleep: { try await self.sleep(until: $0) }, jitter: { self.jitter })
  }

  func advance(by duration: Duration) {
    let woken = state.withLock { state in
      state.elapsed += duration
      let due = state.sleepers.filter { $0.value.until <= start + state.elapsed }
      for id in due.keys { state.sleepers[id] = nil }
      return due.values.map(\.continuation)
    }
    for continuation in woken { continuation.resume() }
  }

  private func sleep(until instant: ContinuousClock.Instant) async throws {
    if jumps {
      try Task.checkCancellation()
      return state.withLock { $0.elapsed = max($0.elapsed, instant - start) }
    }
    let id = UUID()
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isDue = state.withLock { state in
          if instant <= start + state.elapsed { return true }
          state.sleepers[id] = (instant, continuation)
          return false
        }
        if isDue { return continuation.resume() }
        if Task.isCancelled { wake(id) }
      }
    } onCancel: {
      wake(id)
    }
  }

  private func wake(_ id: UUID) {
    let sleeper = state.withLock { $0.sleepers.removeValue(forKey: id) }
    sleeper?.continuation.resume(throwing: CancellationError())
  }
}

/// Yields to other tasks until a condition holds.
func until(_ condition: () -> Bool) async throws {
  let deadline = ContinuousClock.now + .seconds(120)
  while !condition() {
    guard ContinuousClock.now < deadline else { throw CancellationError() }
    await Task.yield()
  }
}

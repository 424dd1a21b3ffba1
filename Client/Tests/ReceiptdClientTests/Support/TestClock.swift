import Foundation

@testable import ReceiptdClient

/// Clocks that a test sets. `advance` is honest time; the others are what an owner does to a device.
final class TestClock: TrustedClock {
  private struct State: Sendable {
    var wall = Date(timeIntervalSince1970: 1_800_000_000)
    var uptime = Uptime(boot: "boot-1", seconds: 100)
    var boots = 1
    var sleepers: [(until: TimeInterval, continuation: CheckedContinuation<Void, Never>)] = []
  }
  private let state = Protected(State())

  func wall() -> Date { state.with { $0.wall } }
  func uptime() -> Uptime { state.with { $0.uptime } }

  func sleep(seconds: TimeInterval) async throws {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.with { state in
          if Task.isCancelled || seconds <= 0 { return true }
          state.sleepers.append((state.uptime.seconds + seconds, continuation))
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      // Wakes all: a sleeper that is woken early looks at the clock again.
      release { _ in true }
    }
    try Task.checkCancellation()
  }

  /// How many tasks sleep.
  var sleepers: Int { state.with { $0.sleepers.count } }

  func advance(_ seconds: TimeInterval) {
    let now = state.with { state in
      state.wall += seconds
      state.uptime.seconds += seconds
      return state.uptime.seconds
    }
    release { $0 <= now }
  }

  func setWall(_ date: Date) { state.with { $0.wall = date } }

  /// The device was off for so many seconds.
  func reboot(after seconds: TimeInterval = 0) {
    state.with {
      $0.boots += 1
      $0.wall += seconds
      $0.uptime = Uptime(boot: "boot-\($0.boots)", seconds: 1)
    }
  }

  private func release(_ isDue: (TimeInterval) -> Bool) {
    let due = state.with { state in
      let due = state.sleepers.filter { isDue($0.until) }
      state.sleepers.removeAll { isDue($0.until) }
      return due
    }
    for sleeper in due { sleeper.continuation.resume() }
  }
}

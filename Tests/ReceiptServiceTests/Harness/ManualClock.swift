import Foundation
import Platform
import ReceiptService
import Synchronization
import Work

/// A wall clock and a monotonic clock that advance only when a test moves them.
final class ManualClock: Sendable {
  private let state: Mutex<(date: Date, uptime: MonotonicInstant)>

  /// Starts at the present, because the simulated store checks tokens with the system's clock. Whole seconds, so that
  /// dates are equal after a round trip through JSON.
  init() {
    let date = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    state = Mutex((date, .now))
  }

  var now: Date { state.withLock { $0.date } }

  var service: ServiceClock {
    ServiceClock(now: { self.now }, uptime: { self.state.withLock { $0.uptime } })
  }

  func advance(days: Double) { advance(seconds: days * 86_400) }

  func advance(seconds: Double) { set(now + seconds) }

  /// Moves both clocks; the monotonic clock does not go back.
  func set(_ date: Date) {
    state.withLock { state in
      state.uptime = state.uptime.advanced(by: .seconds(date.timeIntervalSince(state.date)))
      state.date = date
    }
  }

  /// Sets the wall clock alone, as NTP or an operator does.
  func setWallClock(_ date: Date) { state.withLock { $0.date = date } }
}

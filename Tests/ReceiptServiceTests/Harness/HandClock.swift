import Foundation
import ReceiptService
import Sockets
import Synchronization

/// A clock that stands still until a test moves it.
final class HandClock: Sendable {
  private let time: Mutex<Date>

  /// Starts now, because the store judges tokens by the system's clock; in whole seconds, so that times
  /// come back from JSON as they were.
  init() { time = Mutex(Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))) }

  var now: Date { time.withLock { $0 } }

  var service: ServiceClock {
    ServiceClock(
      now: { self.now },
      uptime: { MonotonicInstant(nanoseconds: UInt64(self.now.timeIntervalSince1970 * 1_000_000_000)) })
  }

  func advance(days: Double) { advance(seconds: days * 86_400) }

  func advance(seconds: Double) { time.withLock { $0 += seconds } }

  func set(_ date: Date) { time.withLock { $0 = date } }
}

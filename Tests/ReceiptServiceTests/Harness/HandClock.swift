import Foundation
import ReceiptService
import Synchronization

/// A clock that stands still until a test moves it.
final class HandClock: Sendable {
  private let time: Mutex<Date>

  /// Whole seconds, so that times come back from JSON as they were.
  init(_ time: Date = Date(timeIntervalSince1970: 1_780_000_000)) { self.time = Mutex(time) }

  var now: Date { time.withLock { $0 } }

  var service: ServiceClock { ServiceClock { self.now } }

  func advance(days: Double) { advance(seconds: days * 86_400) }

  func advance(seconds: Double) { time.withLock { $0 += seconds } }

  func set(_ date: Date) { time.withLock { $0 = date } }
}

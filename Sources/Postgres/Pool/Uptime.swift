import Dispatch

/// An instant on the machine's monotonic clock. It never jumps, and tests make their own.
struct Uptime: Hashable, Comparable, Sendable {
  var nanoseconds: UInt64

  static var now: Uptime { Uptime(nanoseconds: DispatchTime.now().uptimeNanoseconds) }

  static func < (left: Uptime, right: Uptime) -> Bool {
    left.nanoseconds < right.nanoseconds
  }

  /// Saturates instead of overflowing: a time-out of centuries is no time-out.
  static func + (instant: Uptime, duration: Duration) -> Uptime {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0, attoseconds >= 0 else { return instant }
    // A century at most, in nanoseconds, stays far below what Dispatch's clock can hold.
    let whole = UInt64(min(seconds, 3_155_760_000)) * 1_000_000_000
    return Uptime(nanoseconds: instant.nanoseconds + whole + UInt64(attoseconds / 1_000_000_000))
  }

  func duration(to later: Uptime) -> Duration {
    .nanoseconds(later.nanoseconds > nanoseconds ? later.nanoseconds - nanoseconds : 0)
  }

  var dispatchTime: DispatchTime { DispatchTime(uptimeNanoseconds: nanoseconds) }
}

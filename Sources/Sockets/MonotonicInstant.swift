import Dispatch

/// A point on the clock that never jumps, in nanoseconds since the machine started.
///
/// Deadlines are kept on it: setting the wall clock must not end or extend any. It is one integer where
/// `ContinuousClock.Instant` is a 128-bit count of attoseconds, since every event reads and compares it.
public struct MonotonicInstant: Sendable, Hashable {
  /// Nanoseconds since the machine started.
  public let nanoseconds: UInt64

  /// The instant that is so many nanoseconds after the machine's start; tests make their own time of it.
  @inlinable
  public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// The present.
  public static var now: MonotonicInstant {
    MonotonicInstant(nanoseconds: DispatchTime.now().uptimeNanoseconds)
  }

  /// The instant that is so much later, or the end of time if that is beyond it.
  public func advanced(by duration: Duration) -> MonotonicInstant {
    advanced(byNanoseconds: duration.wholeNanoseconds)
  }

  /// The instant that is so much later, or the end of time if that is beyond it.
  @inlinable
  public func advanced(byNanoseconds delta: UInt64) -> MonotonicInstant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(delta)
    return overflow ? .distantFuture : MonotonicInstant(nanoseconds: sum)
  }

  /// The time from `earlier` to this, or zero if it lies the other way round.
  public func duration(since earlier: MonotonicInstant) -> Duration {
    .nanoseconds(nanoseconds(since: earlier))
  }

  /// The time from `earlier` to this in nanoseconds, or zero if it lies the other way round.
  @inlinable
  public func nanoseconds(since earlier: MonotonicInstant) -> UInt64 {
    nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0
  }

  /// Later than any deadline.
  @inlinable
  public static var distantFuture: MonotonicInstant { MonotonicInstant(nanoseconds: .max) }
}

extension MonotonicInstant: Comparable {
  /// Whether `left` is earlier.
  @inlinable
  public static func < (left: MonotonicInstant, right: MonotonicInstant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

extension Duration {
  /// The duration in nanoseconds, not less than zero; the greatest integer from 272 years on.
  ///
  /// A duration counts attoseconds in 128 bits; what is added to instants all the time is better converted
  /// once.
  public var wholeNanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    guard seconds < 1 << 33 else { return .max }
    return UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds) / 1_000_000_000
  }
}

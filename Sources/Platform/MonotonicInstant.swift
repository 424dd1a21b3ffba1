public import Dispatch

/// An instant of the monotonic clock, in nanoseconds since the machine started.
///
/// Deadlines use it, so that setting the wall clock neither ends nor extends them. It is one integer because every
/// event reads and compares it; `ContinuousClock.Instant` is a 128-bit count of attoseconds.
public struct MonotonicInstant: Sendable, Hashable {
  /// Nanoseconds since the machine started.
  public let nanoseconds: UInt64

  /// The instant that is this many nanoseconds after the start of the machine.
  @inlinable
  public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// The current instant.
  public static var now: MonotonicInstant {
    MonotonicInstant(nanoseconds: DispatchTime.now().uptimeNanoseconds)
  }

  /// The instant that is `duration` later, at most ``distantFuture``. A negative duration counts as zero.
  public func advanced(by duration: Duration) -> MonotonicInstant {
    advanced(byNanoseconds: duration.wholeNanoseconds)
  }

  /// The instant that is `delta` nanoseconds later, at most ``distantFuture``.
  @inlinable
  public func advanced(byNanoseconds delta: UInt64) -> MonotonicInstant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(delta)
    return overflow ? .distantFuture : MonotonicInstant(nanoseconds: sum)
  }

  /// The time since `earlier`; zero if `earlier` is later.
  public func duration(since earlier: MonotonicInstant) -> Duration {
    .nanoseconds(nanoseconds(since: earlier))
  }

  /// The nanoseconds since `earlier`; zero if `earlier` is later.
  @inlinable
  public func nanoseconds(since earlier: MonotonicInstant) -> UInt64 {
    nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0
  }

  /// Later than any deadline.
  @inlinable
  public static var distantFuture: MonotonicInstant { MonotonicInstant(nanoseconds: .max) }

  /// The instant for a Dispatch timer; `DispatchTime.distantFuture` from 146 years on.
  ///
  /// Dispatch reads a number with the top bit set as a time of the wall clock.
  public var dispatchTime: DispatchTime {
    nanoseconds < 1 << 62 ? DispatchTime(uptimeNanoseconds: nanoseconds) : .distantFuture
  }
}

extension MonotonicInstant: Comparable {
  /// Whether `left` is earlier.
  @inlinable
  public static func < (left: MonotonicInstant, right: MonotonicInstant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

extension Duration {
  /// The duration in nanoseconds, at least zero; the greatest integer from 272 years on.
  public var wholeNanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    guard seconds < 1 << 33 else { return .max }
    return UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds) / 1_000_000_000
  }
}

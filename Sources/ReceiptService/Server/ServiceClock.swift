import FoundationEssentials
import Sockets

/// Where the service gets the time from: the system's clock, or a test's hand.
public struct ServiceClock: Sendable {
  /// The time now.
  public let now: @Sendable () -> Date

  /// The time that has passed, which no correction of the clock turns back or forward.
  public let uptime: @Sendable () -> MonotonicInstant

  /// A clock that reads these.
  public init(
    now: @escaping @Sendable () -> Date,
    uptime: @escaping @Sendable () -> MonotonicInstant = { .now }
  ) {
    self.now = now
    self.uptime = uptime
  }

  /// The system's.
  public static let system = ServiceClock(now: { Date() })
}
